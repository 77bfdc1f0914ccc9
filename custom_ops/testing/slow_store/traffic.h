// SPDX-License-Identifier: Apache-2.0
// How long requests to a simulated store take, and which of them fail.

#ifndef ADAPTCP_TESTING_SLOW_STORE_TRAFFIC_H_
#define ADAPTCP_TESTING_SLOW_STORE_TRAFFIC_H_

#include <chrono>
#include <cstdint>
#include <random>

#include "custom_ops/base/mutex.h"

namespace adaptcp {

using Clock = std::chrono::steady_clock;

struct TrafficOptions {
  double stream_bytes_per_sec = 0;  // of one open file; 0: no limit
  double total_bytes_per_sec = 0;   // of all of them together; 0: no limit
  double latency_secs = 0;          // of each request
  double failure_rate = 0;          // share of the requests that fail
  uint64_t seed = 0;                // of the failures
};

struct TrafficCounters {
  uint64_t requests = 0;
  uint64_t failures = 0;
  uint64_t bytes_written = 0;
  uint64_t bytes_read = 0;
};

// Shared by all files. Thread-safe.
class Traffic {
 public:
  // Starts over, counters included. What is under way ends at once.
  void Configure(const TrafficOptions& options) TF_LOCKS_EXCLUDED(mu_);
  TrafficCounters counters() TF_LOCKS_EXCLUDED(mu_);

  // Waits for the latency; false when the request shall fail.
  bool Request() TF_LOCKS_EXCLUDED(mu_);
  // Waits until so many bytes of a stream are through. `stream_free` is when the stream is done
  // with what came before, and is moved on.
  void Transfer(uint64_t bytes, bool write, Clock::time_point* stream_free) TF_LOCKS_EXCLUDED(mu_);

 private:
  // Waits until then, or until it is configured again.
  void WaitUntil(Clock::time_point done, uint64_t epoch) TF_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  TrafficOptions options_ TF_GUARDED_BY(mu_);
  TrafficCounters counters_ TF_GUARDED_BY(mu_);
  std::mt19937_64 random_ TF_GUARDED_BY(mu_);
  // How often it was configured.
  uint64_t epoch_ TF_GUARDED_BY(mu_) = 0;
  // When the line that all streams share is done.
  Clock::time_point line_free_ TF_GUARDED_BY(mu_);
};

}  // namespace adaptcp

#endif  // ADAPTCP_TESTING_SLOW_STORE_TRAFFIC_H_
