// SPDX-License-Identifier: Apache-2.0
// Updates: tables, saving and marking rows, replacing whole tables.

#include "custom_ops/engine/table_group.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace adaptcp {
namespace {

// Enough for a share of 0.1 % to be off by 6 %, in a few milliseconds.
constexpr size_t kSampledRows = size_t{1} << 18;
// Samples of successive intervals begin so far apart: an odd number, so that all get their turn.
constexpr size_t kStripesApart = 97;

class StallTimer {
 public:
  explicit StallTimer(RowSaver* saver) : saver_(saver), start_(std::chrono::steady_clock::now()) {}
  ~StallTimer() {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    saver_->AddStall(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
  }

 private:
  RowSaver* const saver_;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace

TableGroup::TableGroup(const TableGroupOptions& options, BlockBudget* budget,
                       UpdateLogBudget* log_budget)
    : options_(options), budget_(budget), log_(log_budget) {}

TableGroup::~TableGroup() = default;

Status TableGroup::Attach(size_t index, const void* identity, std::unique_ptr<Table> table) {
  ExclusiveLock gate(&gate_);
  if (index < tables_.size()) {
    if (identities_[index] == identity) return Status::OK();
    return FailedPrecondition("table group '", options_.name, "' already has a table number ",
                              index, " ('", tables_[index]->spec().name, "'); received '",
                              table->spec().name, "' for the same number");
  }
  if (index > tables_.size()) {
    return FailedPrecondition("table group '", options_.name, "' has ", tables_.size(),
                              " tables; expected the next one with that number, received ", index);
  }
  log_.Forget();
  tables_.push_back(std::move(table));
  identities_.push_back(identity);
  return Status::OK();
}

bool TableGroup::IsAttached(size_t index, const void* identity) {
  SharedLock gate(&gate_);
  return index < identities_.size() && identities_[index] == identity;
}

Status TableGroup::Update(const KeyBatch& batch, const std::function<Status()>& apply) {
  SharedLock gate(&gate_);
  if (batch.size == 0) return apply();
  SaveAndMark(batch);
  log_.EnterOther();
  const Status applied = apply();
  log_.Leave(UpdateLog::kUnlogged, applied.ok());
  return applied;
}

Status TableGroup::Insert(const KeyBatch& batch, size_t table, const RowValues& values,
                          const std::function<Status()>& apply) {
  SharedLock gate(&gate_);
  if (batch.size == 0) return apply();
  SaveAndMark(batch);
  const uint64_t entered = log_.EnterInsert(batch, table, tables_.size(), values);
  const Status applied = apply();
  log_.Leave(entered, applied.ok());
  return applied;
}

bool TableGroup::IsSaving() {
  SharedLock gate(&gate_);
  return must_save_;
}

void TableGroup::WillUpdate(const KeyBatch& batch) {
  SharedLock gate(&gate_);
  if (must_save_) cut_->AddUrgent(batch);
}

Status TableGroup::MarkUpdated(const KeyBatch& batch) {
  SharedLock gate(&gate_);
  log_.Disable();
  SaveAndMark(batch);
  return Status::OK();
}

void TableGroup::SaveAndMark(const KeyBatch& batch) {
  if (batch.size == 0) return;
  // Rows that a cut needs must be saved before the caller changes them. Without a cut it is enough
  // that they are marked before Begin, which waits for whoever holds the gate.
  const RecentBatch::Verdict verdict =
      recent_.Enter(batch, interval_, /*wait_until_done=*/must_save_);
  if (verdict == RecentBatch::Verdict::kMarked) return;
  MarkKeys(batch.keys, batch.size);
  if (verdict == RecentBatch::Verdict::kMarkAndTell) recent_.Done();
}

void TableGroup::MarkKeys(const int64_t* keys, size_t n) {
  // A cut that failed needs no rows.
  if (!must_save_ || !cut_->status().ok()) {
    tracker_.VisitByStripe(keys, n,
                           [this](Stripe* stripe, const HashedKey* run, size_t count, bool)
                               TF_NO_THREAD_SAFETY_ANALYSIS {
                                 // The caller holds the gate, which the analysis cannot see from
                                 // inside a lambda.
                                 MarkRun(stripe, run, count);
                                 return true;
                               });
    return;
  }
  RowSaver saver(cut_.get(), &tracker_.rates(), interner_or_null(), SaveReason::kUpdate);
  tracker_.VisitByStripe(keys, n,
                         [&](Stripe* stripe, const HashedKey* run, size_t count, bool may_postpone)
                             TF_NO_THREAD_SAFETY_ANALYSIS {
                               return SaveAndMarkRun(stripe, run, count, may_postpone, &saver);
                             });
  StallTimer timer(&saver);
  saver.FlushTombstones();
}

void TableGroup::MarkRun(Stripe* stripe, const HashedKey* keys, size_t n) {
  MutexLock lock(&stripe->mu);
  MarkLocked(stripe, keys, n);
}

void TableGroup::MarkLocked(Stripe* stripe, const HashedKey* keys, size_t n) {
  stripe->rows.FindAll(keys, n,
                       [&](const HashedKey& key, RowEntry* row)
                           TF_NO_THREAD_SAFETY_ANALYSIS { MarkOne(stripe, key, row); });
}

bool TableGroup::SaveAndMarkRun(Stripe* stripe, const HashedKey* keys, size_t n, bool may_postpone,
                                RowSaver* saver) {
  for (size_t begin = 0; begin < n; begin += saver->max_rows()) {
    const size_t end = std::min(n, begin + saver->max_rows());
    {
      StallTimer timer(saver);
      saver->Reserve(end - begin);
    }
    if (!stripe->mu.TryLock()) {
      if (may_postpone && begin == 0) return false;
      StallTimer timer(saver);
      stripe->mu.Lock();
    }
    if (saver->AddNeeded(stripe, keys + begin, end - begin)) {
      StallTimer timer(saver);
      const Status read = saver->Read();
      // Training goes on after a failed read, the cut fails.
      if (read.ok()) {
        saver->Append(stripe);
      } else {
        cut_->Fail(read);
      }
    }
    MarkLocked(stripe, keys + begin, end - begin);
    stripe->mu.Unlock();
  }
  return true;
}

void TableGroup::MarkOne(Stripe* stripe, const HashedKey& key, RowEntry* row) {
  // Most rows were updated in this interval before.
  if (row != nullptr && row->last_updated == interval_ && !row->removed) return;
  bool inserted = false;
  if (row == nullptr) {
    row = stripe->rows.FindOrInsert(key.key, key.hash, committed_interval_, &inserted);
  }
  if (inserted || row->removed) {
    row->removed = 0;
    ++stripe->live;
    RateModel::Reset(row);
    tracker_.rates().Touch(row, 1);
    if (row->last_updated == interval_) return;
  } else {
    tracker_.rates().Touch(row, interval_ - static_cast<uint32_t>(row->last_updated));
  }
  row->last_updated = interval_;
  stripe->dirty.Add(key.key, stripe->rows.capacity());
}

void TableGroup::BeforeReplace() {
  for (;;) {
    {
      MutexLock lock(&state_mu_);
      while (cut_state_ == CutState::kSaving || cut_state_ == CutState::kDraining ||
             cut_state_ == CutState::kEnding) {
        state_changed_.Wait(&state_mu_);
      }
    }
    ExclusiveLock gate(&gate_);
    // Unless another cut began in between.
    if (must_save_) continue;
    replacing_ = true;
    return;
  }
}

Status TableGroup::AfterReplace(const int64_t* keys, size_t n) {
  {
    ExclusiveLock gate(&gate_);
    if (must_save_) {
      return FailedPrecondition("the tables of group '", options_.name,
                                "' were replaced while a checkpoint still needed their rows");
    }
    replacing_ = false;
    ForgetRowsLocked();
    base_required_ = true;
    replaced_in_ = interval_;
  }
  return Adopt(keys, n);
}

Status TableGroup::Adopt(const int64_t* keys, size_t n) {
  SharedLock gate(&gate_);
  log_.Forget();
  MarkKeys(keys, n);
  return Status::OK();
}

GroupStats TableGroup::Stats() {
  SharedLock gate(&gate_);
  GroupStats stats;
  for (const auto& table : tables_) {
    stats.table_rows.push_back(table->Size());
  }
  const TrackerSize size = tracker_.MeasureSize();
  stats.rows = size.rows;
  stats.rows_to_save = size.rows_to_save;
  stats.tracker_bytes = size.bytes;
  stats.interval = interval_;
  stats.base_required = base_required_;
  stats.cut_active = cut_ != nullptr;
  stats.restored_rows = restored_rows_;
  return stats;
}

RateHistogram TableGroup::Rates() {
  // Copied, since the next Begin may change the half-life.
  gate_.LockShared();
  const RateModel rates = tracker_.rates();
  const uint32_t closed = interval_ - 1;
  gate_.UnlockShared();
  return MeasureRates(&tracker_, rates, closed, kSampledRows, closed * kStripesApart);
}

void TableGroup::ForgetRowsLocked() {
  tracker_.Clear();
  recent_.Forget();
  log_.Forget();
}

std::vector<Table*> TableGroup::tables() {
  SharedLock gate(&gate_);
  std::vector<Table*> tables;
  for (const auto& table : tables_) tables.push_back(table.get());
  return tables;
}

}  // namespace adaptcp
