// SPDX-License-Identifier: Apache-2.0
// Rows in demand: saved before their updates come, by the drain or by the threads that prepare
// input.

#include <utility>

#include "custom_ops/engine/table_group.h"

namespace adaptcp {

void TableGroup::SaveBeforeUpdate(LazyKeyBatch batch, size_t window) {
  prefetched_.Add(std::move(batch), window);
  Cut* const cut = EnterCut();
  if (cut == nullptr) return;
  Status status;
  {
    RowSaver saver(cut, &tracker_.rates(), interner_or_null(), SaveReason::kPrefetch);
    status = SavePrefetched(cut, &saver);
  }
  if (!status.ok()) cut->Fail(status);
  savers_ahead_.Leave();
}

Cut* TableGroup::EnterCut() {
  SharedLock gate(&gate_);
  if (!must_save_ || !cut_->status().ok()) return nullptr;
  savers_ahead_.Enter();
  return cut_.get();
}

void TableGroup::StopSaving() {
  {
    // Waits for updates that may still append to the cut.
    ExclusiveLock gate(&gate_);
    must_save_ = false;
  }
  savers_ahead_.AwaitNone();
}

Status TableGroup::DrainUrgent(Cut* cut, RowSaver* saver) {
  KeyBatch batch;
  while (cut->TakeUrgent(&batch)) ADAPTCP_RETURN_IF_ERROR(DrainBatch(batch, saver));
  return SavePrefetched(cut, saver);
}

Status TableGroup::DrainBatch(const KeyBatch& batch, RowSaver* saver) {
  Status status;
  tracker_.VisitByStripe(batch.keys, batch.size,
                         [&](Stripe* stripe, const HashedKey* run, size_t count, bool) {
                           if (status.ok()) status = DrainRun(stripe, run, count, saver);
                           return true;
                         });
  return status;
}

Status TableGroup::SavePrefetched(Cut* cut, RowSaver* saver) {
  LazyKeyBatch batch;
  while (prefetched_.Take(cut->tag(), &batch)) {
    ADAPTCP_RETURN_IF_ERROR(DrainBatch(batch(), saver));
    ADAPTCP_RETURN_IF_ERROR(cut->status());
  }
  return Status::OK();
}

}  // namespace adaptcp
