// SPDX-License-Identifier: Apache-2.0
// Runs the iterations of a loop on several threads.

#ifndef ADAPTCP_ENGINE_PARALLEL_FOR_H_
#define ADAPTCP_ENGINE_PARALLEL_FOR_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/base/status.h"
#include "custom_ops/base/thread.h"

namespace adaptcp {

// Calls body(0) .. body(n - 1), each once, on up to `threads` threads, the calling one among them;
// fewer when the system gives no more.
// After an error no new iteration starts; returns the first error.
inline Status ParallelFor(size_t n, size_t threads, const std::function<Status(size_t)>& body) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  Mutex mu;
  Status first_error;
  const auto run = [&] {
    for (size_t i = next++; i < n && !failed; i = next++) {
      const Status status = body(i);
      if (status.ok()) continue;
      failed = true;
      MutexLock lock(&mu);
      first_error.Update(status);
    }
  };
  std::vector<std::thread> helpers;
  for (size_t t = 1; t < std::min(threads, n); ++t) {
    std::thread helper;
    if (!StartThread(run, &helper).ok()) break;
    helpers.push_back(std::move(helper));
  }
  run();
  for (std::thread& helper : helpers) helper.join();
  return first_error;
}

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_PARALLEL_FOR_H_
