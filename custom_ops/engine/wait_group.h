// SPDX-License-Identifier: Apache-2.0
// Counts the threads that use something, so that its owner can wait until none does.

#ifndef ADAPTCP_ENGINE_WAIT_GROUP_H_
#define ADAPTCP_ENGINE_WAIT_GROUP_H_

#include <cstddef>

#include "custom_ops/base/mutex.h"

namespace adaptcp {

// Thread-safe.
class WaitGroup {
 public:
  void Enter() TF_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    ++users_;
  }

  void Leave() TF_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (--users_ == 0) none_.SignalAll();
  }

  // The caller keeps others from entering.
  void AwaitNone() TF_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    while (users_ > 0) none_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar none_;
  size_t users_ TF_GUARDED_BY(mu_) = 0;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_WAIT_GROUP_H_
