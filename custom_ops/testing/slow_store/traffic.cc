// SPDX-License-Identifier: Apache-2.0
// Waiting and failing.

#include "custom_ops/testing/slow_store/traffic.h"

#include <algorithm>
#include <thread>

namespace adaptcp {
namespace {

Clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// When a line that is free at `free` is done with the bytes.
Clock::time_point DoneAt(Clock::time_point now, Clock::time_point free, uint64_t bytes,
                         double bytes_per_sec) {
  if (bytes_per_sec <= 0) return now;
  return std::max(now, free) + Seconds(static_cast<double>(bytes) / bytes_per_sec);
}

}  // namespace

void Traffic::Configure(const TrafficOptions& options) {
  MutexLock lock(&mu_);
  ++epoch_;
  options_ = options;
  counters_ = TrafficCounters();
  random_.seed(options.seed);
  line_free_ = Clock::time_point();
}

TrafficCounters Traffic::counters() {
  MutexLock lock(&mu_);
  return counters_;
}

bool Traffic::Request() {
  double latency_secs;
  bool fails;
  {
    MutexLock lock(&mu_);
    latency_secs = options_.latency_secs;
    fails = std::uniform_real_distribution<>()(random_) < options_.failure_rate;
    ++counters_.requests;
    counters_.failures += fails;
  }
  std::this_thread::sleep_for(Seconds(latency_secs));
  return !fails;
}

void Traffic::Transfer(uint64_t bytes, bool write, Clock::time_point* stream_free) {
  Clock::time_point done;
  uint64_t epoch;
  {
    MutexLock lock(&mu_);
    const Clock::time_point now = Clock::now();
    *stream_free = DoneAt(now, *stream_free, bytes, options_.stream_bytes_per_sec);
    line_free_ = DoneAt(now, line_free_, bytes, options_.total_bytes_per_sec);
    done = std::max(*stream_free, line_free_);
    epoch = epoch_;
    (write ? counters_.bytes_written : counters_.bytes_read) += bytes;
  }
  WaitUntil(done, epoch);
}

void Traffic::WaitUntil(Clock::time_point done, uint64_t epoch) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  for (auto now = Clock::now(); now < done; now = Clock::now()) {
    std::this_thread::sleep_for(std::min<Clock::duration>(kLook, done - now));
    MutexLock lock(&mu_);
    if (epoch_ != epoch) return;
  }
}

}  // namespace adaptcp
