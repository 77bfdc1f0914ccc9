// SPDX-License-Identifier: Apache-2.0
// The batches of keys that the input pipeline has prepared and training may not have used yet.

#ifndef ADAPTCP_ENGINE_PREFETCH_WINDOW_H_
#define ADAPTCP_ENGINE_PREFETCH_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/engine/key_batch.h"

namespace adaptcp {

// Makes a batch when it is needed, which without a cut is never. May run on any thread.
using LazyKeyBatch = std::function<KeyBatch()>;

// Thread-safe.
class PrefetchWindow {
 public:
  // Adds a batch; of older ones all but `window` - 1 are forgotten.
  void Add(LazyKeyBatch batch, size_t window) TF_LOCKS_EXCLUDED(mu_) {
    std::vector<Entry> forgotten;  // outlives the lock
    MutexLock lock(&mu_);
    entries_.push_back({std::move(batch), 0});
    while (entries_.size() > window) {
      forgotten.push_back(std::move(entries_.front()));
      entries_.pop_front();
    }
  }

  // The oldest batch, since it is used first, that nobody took yet for the cut with this tag.
  // False when there is none.
  bool Take(uint32_t tag, LazyKeyBatch* batch) TF_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    for (Entry& entry : entries_) {
      if (entry.taken_for == tag) continue;
      entry.taken_for = tag;
      *batch = entry.batch;
      return true;
    }
    return false;
  }

 private:
  struct Entry {
    LazyKeyBatch batch;
    uint32_t taken_for;  // tag of a cut, 0 for none
  };

  Mutex mu_;
  std::deque<Entry> entries_ TF_GUARDED_BY(mu_);
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_PREFETCH_WINDOW_H_
