// SPDX-License-Identifier: Apache-2.0
// Recognises the batch of keys that was marked last: the optimizer updates the parameter table and
// each slot table with the same keys, and only the first of them needs to mark.

#ifndef ADAPTCP_ENGINE_RECENT_BATCH_H_
#define ADAPTCP_ENGINE_RECENT_BATCH_H_

#include <cstddef>
#include <cstdint>

#include "custom_ops/base/mutex.h"
#include "custom_ops/engine/key_batch.h"

namespace adaptcp {

// Thread-safe.
class RecentBatch {
 public:
  enum class Verdict { kMarked, kMark, kMarkAndTell };

  // kMarked: another thread has marked these very keys in `interval`, or, unless `wait_until_done`,
  // is marking them now. kMark: the caller must mark them. kMarkAndTell: likewise, and then call
  // Done.
  Verdict Enter(const KeyBatch& batch, uint32_t interval, bool wait_until_done = true)
      TF_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    while (interval == interval_ && batch_.SameKeys(batch)) {
      if (!marking_ || !wait_until_done) return Verdict::kMarked;
      done_.Wait(&mu_);
    }
    if (marking_) return Verdict::kMark;
    batch_ = batch;
    interval_ = interval;
    marking_ = true;
    return Verdict::kMarkAndTell;
  }

  void Done() TF_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    marking_ = false;
    done_.SignalAll();
  }

  void Forget() TF_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (!marking_) batch_ = KeyBatch();
  }

 private:
  Mutex mu_;
  CondVar done_;
  KeyBatch batch_ TF_GUARDED_BY(mu_);
  uint32_t interval_ TF_GUARDED_BY(mu_) = 0;
  bool marking_ TF_GUARDED_BY(mu_) = false;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_RECENT_BATCH_H_
