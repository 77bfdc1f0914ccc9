// SPDX-License-Identifier: Apache-2.0
// Waiting for one's turn, for memory and for a core.

#include "custom_ops/engine/restore_schedule.h"

namespace adaptcp {

RestoreSchedule::RestoreSchedule(std::vector<size_t> blocks_of_cuts, size_t bytes, size_t slots)
    : bytes_(bytes), free_slots_(slots), unknown_(std::move(blocks_of_cuts)) {}

template <typename Ready>
Status RestoreSchedule::Wait(const Ready& ready) {
  while (status_.ok() && !ready()) changed_.Wait(&mu_);
  return status_;
}

Status RestoreSchedule::Admit(size_t block, size_t bytes) {
  MutexLock lock(&mu_);
  ADAPTCP_RETURN_IF_ERROR(Wait([this, block, bytes]() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return block == next_block_ && (taken_ == 0 || taken_ + bytes <= bytes_);
  }));
  ++next_block_;
  taken_ += bytes;
  changed_.SignalAll();
  return Status::OK();
}

void RestoreSchedule::Release(size_t bytes) {
  MutexLock lock(&mu_);
  taken_ -= bytes;
  changed_.SignalAll();
}

Status RestoreSchedule::AwaitNewerThan(size_t cut) {
  MutexLock lock(&mu_);
  return Wait([this, cut]() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (newest_unknown_ < cut && unknown_[newest_unknown_] == 0) ++newest_unknown_;
    return newest_unknown_ >= cut;
  });
}

void RestoreSchedule::BlockKnown(size_t cut) {
  MutexLock lock(&mu_);
  if (--unknown_[cut] == 0) changed_.SignalAll();
}

Status RestoreSchedule::TakeSlot() {
  MutexLock lock(&mu_);
  ADAPTCP_RETURN_IF_ERROR(
      Wait([this]() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return free_slots_ > 0; }));
  --free_slots_;
  return Status::OK();
}

void RestoreSchedule::GiveBackSlot() {
  MutexLock lock(&mu_);
  ++free_slots_;
  changed_.SignalAll();
}

Status RestoreSchedule::Fail(const Status& why) {
  MutexLock lock(&mu_);
  status_.Update(why);
  changed_.SignalAll();
  return status_;
}

}  // namespace adaptcp
