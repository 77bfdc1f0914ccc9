// SPDX-License-Identifier: Apache-2.0
// Order, memory and cores of the blocks that a restore has under way.

#ifndef ADAPTCP_ENGINE_RESTORE_SCHEDULE_H_
#define ADAPTCP_ENGINE_RESTORE_SCHEDULE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/base/status.h"

namespace adaptcp {

// Many threads wait for storage, each with a block of its own, and few at a time use a core. Blocks
// are numbered from the newest cut to the oldest. Thread-safe. Whatever waits returns, once the
// restore failed, the failure.
class RestoreSchedule {
 public:
  // `blocks_of_cuts` tells how many blocks each cut has, the newest first. Blocks under way take at
  // most `bytes` together, unless one alone is larger; `slots` threads work at once.
  RestoreSchedule(std::vector<size_t> blocks_of_cuts, size_t bytes, size_t slots);
  RestoreSchedule(const RestoreSchedule&) = delete;
  RestoreSchedule& operator=(const RestoreSchedule&) = delete;

  // Waits until every block before this one was admitted and there are so many bytes. Each block
  // comes once: the memory that a block waits for is then held by blocks that wait for none after
  // it.
  Status Admit(size_t block, size_t bytes) TF_LOCKS_EXCLUDED(mu_);
  void Release(size_t bytes) TF_LOCKS_EXCLUDED(mu_);

  // Waits until the rows of all newer cuts are known.
  Status AwaitNewerThan(size_t cut) TF_LOCKS_EXCLUDED(mu_);
  // The rows of one more block of the cut are known.
  void BlockKnown(size_t cut) TF_LOCKS_EXCLUDED(mu_);

  Status TakeSlot() TF_LOCKS_EXCLUDED(mu_);
  void GiveBackSlot() TF_LOCKS_EXCLUDED(mu_);

  // Lets nobody wait any longer. The first failure counts; returns that.
  Status Fail(const Status& why) TF_LOCKS_EXCLUDED(mu_);

 private:
  // Waits until `ready`, or the failure.
  template <typename Ready>
  Status Wait(const Ready& ready) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  const size_t bytes_;

  Mutex mu_;
  CondVar changed_;
  Status status_ TF_GUARDED_BY(mu_);
  size_t next_block_ TF_GUARDED_BY(mu_) = 0;
  size_t taken_ TF_GUARDED_BY(mu_) = 0;
  size_t free_slots_ TF_GUARDED_BY(mu_);
  // Per cut the blocks whose rows are not known yet; and the newest cut that has some.
  std::vector<size_t> unknown_ TF_GUARDED_BY(mu_);
  size_t newest_unknown_ TF_GUARDED_BY(mu_) = 0;
};

// A slot, given back when this goes. Only if `status()` is good was there one.
class WorkSlot {
 public:
  explicit WorkSlot(RestoreSchedule* schedule)
      : schedule_(schedule), status_(schedule->TakeSlot()) {}
  ~WorkSlot() {
    if (status_.ok()) schedule_->GiveBackSlot();
  }
  WorkSlot(const WorkSlot&) = delete;
  WorkSlot& operator=(const WorkSlot&) = delete;

  const Status& status() const { return status_; }

 private:
  RestoreSchedule* const schedule_;
  const Status status_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_RESTORE_SCHEDULE_H_
