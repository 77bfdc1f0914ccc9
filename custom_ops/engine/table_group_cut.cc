// SPDX-License-Identifier: Apache-2.0
// The life of a cut: begin, drain, end.

#include <algorithm>
#include <utility>

#include "custom_ops/engine/table_group.h"

namespace adaptcp {
namespace {

// How far a drain that walks a stripe gets before it lets updates in.
constexpr size_t kMaxSlotsPerLock = 4096;

// How many logged inserts a drain copies before it looks for rows in demand. By then it has come
// across most of them, at a tenth of what reading them from the tables costs.
constexpr size_t kInsertsPerUrgent = 8;

}  // namespace

Status TableGroup::CheckNoCut() {
  MutexLock lock(&state_mu_);
  if (active_cut_ == nullptr) return Status::OK();
  return FailedPrecondition("table group '", options_.name, "' is still saving the checkpoint of ",
                            "interval ", active_cut_->options().interval,
                            "; end it before the next");
}

Status TableGroup::CheckCanBegin(const CutOptions& options) {
  ADAPTCP_RETURN_IF_ERROR(CheckNoCut());
  if (options.interval < interval_ || options.interval >= kMaxInterval) {
    return InvalidArgument("table group '", options_.name, "': expected a checkpoint of interval ",
                           interval_, " to ", kMaxInterval - 1, ", received ", options.interval,
                           "; at the end, start a new directory from an exported model");
  }
  // Written so that NaN is refused too.
  if (!(options.hot_threshold >= 0) || !(options.hysteresis >= 0)) {
    return InvalidArgument("expected a hot threshold and a hysteresis of at least 0, received ",
                           options.hot_threshold, " and ", options.hysteresis);
  }
  if (!(options.rate_half_life_intervals > 0)) {
    return InvalidArgument("expected a half-life of rates above 0, received ",
                           options.rate_half_life_intervals);
  }
  if (replacing_) {
    return FailedPrecondition("the tables of group '", options_.name,
                              "' are being cleared or imported; checkpoint after that");
  }
  if (base_required_ && !options.base) {
    return FailedPrecondition("the tables of group '", options_.name,
                              "' were cleared or imported, or the last base failed; expected a "
                              "base, received a request for an increment");
  }
  if (tables_.empty()) {
    return FailedPrecondition("table group '", options_.name, "' has no table");
  }
  return Status::OK();
}

void TableGroup::BeginLocked(const CutOptions& options) {
  if (options.rate_half_life_intervals != tracker_.rates().half_life_intervals()) {
    tracker_.SetRateHalfLife(options.rate_half_life_intervals);
  }
  Cut::DirtyLists dirty;
  for (size_t s = 0; s < RowTracker::kStripes; ++s) {
    Stripe* stripe = tracker_.stripe(s);
    MutexLock lock(&stripe->mu);
    std::swap(dirty[s], stripe->dirty);
  }
  std::vector<Table*> tables;
  std::vector<uint32_t> row_bytes;
  for (const auto& table : tables_) {
    tables.push_back(table.get());
    row_bytes.push_back(table->spec().row_bytes);
  }
  pool_ = std::make_unique<BlockPool>(budget_, row_bytes, RowsPerBlock(row_bytes));
  cut_ = std::make_unique<Cut>(options, interval_, next_tag_, pool_.get(), std::move(tables),
                               std::move(dirty), log_.Take());
  must_save_ = true;
  interval_ = options.interval + 1;
  ++next_tag_;
  SetState(CutState::kSaving, cut_.get());
}

Status TableGroup::Begin(std::vector<TableGroup*> groups, const CutOptions& options) {
  // One order for all callers, so that two of them cannot wait for each other.
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  // Before the gates: an update that holds one may be waiting for the very drain of that cut.
  for (TableGroup* group : groups) ADAPTCP_RETURN_IF_ERROR(group->CheckNoCut());
  for (TableGroup* group : groups) group->gate_.Lock();
  Status status;
  for (TableGroup* group : groups) status.Update(group->CheckCanBegin(options));
  if (status.ok()) {
    for (TableGroup* group : groups) group->BeginLocked(options);
  }
  for (TableGroup* group : groups) group->gate_.Unlock();
  return status;
}

Status TableGroup::CopyRows() {
  Cut* const cut = EnterState({CutState::kSaving}, CutState::kDraining);
  if (cut == nullptr) {
    return FailedPrecondition("table group '", options_.name, "' has no checkpoint to copy");
  }
  // Nothing is written meanwhile, so waiting for memory would never end.
  cut->LiftMemoryBound();
  SaveRows(cut);
  SetState(CutState::kCopied, cut);
  return Status::OK();
}

Status TableGroup::Drain(FileSystem* file_system, const std::string& directory,
                         const std::string& file_prefix, size_t max_writers, DrainResult* result) {
  Cut* cut = EnterState({CutState::kCopied}, CutState::kFinishing);
  const bool copied = cut != nullptr;
  if (!copied) cut = EnterState({CutState::kSaving}, CutState::kDraining);
  if (cut == nullptr) {
    return FailedPrecondition("table group '", options_.name, "' has no checkpoint to drain");
  }
  SegmentHeader header;
  header.group = options_.name;
  header.shard = options_.shard;
  header.num_shards = options_.num_shards;
  header.key_type = options_.key_type;
  for (Table* table : cut->tables()) header.tables.push_back(table->spec());
  cut->StartWriting(file_system, directory, file_prefix, header, max_writers);
  if (!copied) {
    SaveRows(cut);
    SetState(CutState::kFinishing, cut);
  }
  const Status finished = cut->FinishWriting(&result->segments);
  result->counts = cut->counts();
  SetState(finished.ok() ? CutState::kSaved : CutState::kFailed, cut);
  return finished;
}

void TableGroup::SaveRows(Cut* cut) {
  Status status;
  {
    RowSaver saver(cut, &tracker_.rates(), interner_or_null(), SaveReason::kDrain);
    status = DrainInserts(cut, &saver);
    for (size_t s = 0; s < RowTracker::kStripes && status.ok(); ++s) {
      status.Update(DrainStripe(cut, s, &saver));
      status.Update(cut->status());
    }
  }
  if (!status.ok()) cut->Fail(status);
  StopSaving();
}

Status TableGroup::DrainStripe(Cut* cut, size_t s, RowSaver* saver) {
  Stripe* stripe = tracker_.stripe(s);
  KeyList standing;
  {
    MutexLock lock(&stripe->mu);
    standing = stripe->standing;
  }
  const bool walk = cut->options().base || cut->dirty(s).overflowed() || standing.overflowed();
  Status status;
  if (walk) {
    status = DrainAll(cut, stripe, saver);
  } else {
    status = DrainKeys(cut, stripe, cut->dirty(s).keys(), saver);
    if (status.ok()) status = DrainKeys(cut, stripe, standing.keys(), saver);
  }
  MutexLock lock(&stripe->mu);
  if (walk || stripe->standing.overflowed()) {
    RelistAll(stripe);
  } else {
    Relist(stripe);
  }
  return status;
}

void TableGroup::Relist(Stripe* stripe) {
  KeyList kept;
  for (int64_t key : stripe->standing.keys()) {
    RowEntry* row = stripe->rows.Find(key, HashKey(key));
    if (row == nullptr || !row->listed) continue;
    row->listed = row->standing;
    if (row->standing) kept.Add(key, stripe->rows.capacity());
  }
  stripe->standing = std::move(kept);
}

void TableGroup::RelistAll(Stripe* stripe) {
  const size_t capacity = stripe->rows.capacity();
  size_t standing = 0;
  for (size_t i = 0; i < capacity; ++i) standing += stripe->rows.slot(i)->standing;
  const bool fits = KeyList::Fits(standing, capacity);
  stripe->standing = KeyList();
  if (!fits) stripe->standing.Overflow();
  for (size_t i = 0; i < capacity; ++i) {
    RowEntry* row = stripe->rows.slot(i);
    row->listed = fits && row->standing;
    if (row->listed) stripe->standing.Add(row->key, capacity);
  }
}

Status TableGroup::DrainKeys(Cut* cut, Stripe* stripe, const std::vector<int64_t>& keys,
                             RowSaver* saver) {
  std::vector<HashedKey> run;
  for (size_t begin = 0; begin < keys.size(); begin += saver->max_rows()) {
    ADAPTCP_RETURN_IF_ERROR(DrainUrgent(cut, saver));
    const size_t end = std::min(keys.size(), begin + saver->max_rows());
    run.clear();
    for (size_t i = begin; i < end; ++i) {
      run.push_back({keys[i], static_cast<uint32_t>(HashKey(keys[i])), static_cast<uint32_t>(i)});
    }
    ADAPTCP_RETURN_IF_ERROR(DrainRun(stripe, run.data(), run.size(), saver));
  }
  return Status::OK();
}

Status TableGroup::DrainInserts(Cut* cut, RowSaver* saver) {
  Status status;
  size_t taken = 1;
  for (const LoggedInsert* insert; status.ok() && (insert = cut->NextInsert()); ++taken) {
    tracker_.VisitByStripe(insert->batch.keys, insert->batch.size,
                           [&](Stripe* stripe, const HashedKey* run, size_t count, bool) {
                             if (status.ok()) {
                               status = DrainInsertedRun(stripe, run, count, *insert, saver);
                             }
                             return true;
                           });
    if (status.ok() && taken % kInsertsPerUrgent == 0) status = DrainUrgent(cut, saver);
    status.Update(cut->status());
  }
  return status;
}

Status TableGroup::DrainInsertedRun(Stripe* stripe, const HashedKey* keys, size_t n,
                                    const LoggedInsert& insert, RowSaver* saver) {
  if (n <= saver->block_capacity()) {
    saver->Reserve(n);
    MutexLock lock(&stripe->mu);
    if (saver->CopyNeeded(stripe, keys, n, insert)) return Status::OK();
  }
  return DrainRun(stripe, keys, n, saver);
}

Status TableGroup::DrainRun(Stripe* stripe, const HashedKey* keys, size_t n, RowSaver* saver) {
  for (size_t begin = 0; begin < n; begin += saver->max_rows()) {
    const size_t end = std::min(n, begin + saver->max_rows());
    saver->Reserve(end - begin);
    {
      MutexLock lock(&stripe->mu);
      saver->AddNeeded(stripe, keys + begin, end - begin);
    }
    saver->DropDuplicates();
    ADAPTCP_RETURN_IF_ERROR(saver->Read());
    MutexLock lock(&stripe->mu);
    saver->Append(stripe);
  }
  return Status::OK();
}

Status TableGroup::DrainAll(Cut* cut, Stripe* stripe, RowSaver* saver) {
  size_t next = 0;
  uint64_t generation = 0;
  for (bool more = true; more;) {
    ADAPTCP_RETURN_IF_ERROR(DrainUrgent(cut, saver));
    saver->Reserve(saver->max_rows());
    {
      MutexLock lock(&stripe->mu);
      if (stripe->rows.generation() != generation) {
        // The map grew and its rows moved: start over, saved rows are skipped.
        generation = stripe->rows.generation();
        next = 0;
      }
      const size_t capacity = stripe->rows.capacity();
      const size_t end = std::min(capacity, next + kMaxSlotsPerLock);
      size_t added = 0;
      for (; next < end && added < saver->max_rows(); ++next) {
        const RowEntry* row = stripe->rows.slot(next);
        if (!row->occupied || !saver->Needs(*row)) continue;
        saver->Add(*row);
        ++added;
      }
      more = next < capacity;
    }
    ADAPTCP_RETURN_IF_ERROR(saver->Read());
    MutexLock lock(&stripe->mu);
    saver->Append(stripe);
  }
  return Status::OK();
}

Status TableGroup::EndCut(bool committed) {
  Cut* const cut =
      committed
          ? EnterState({CutState::kSaved}, CutState::kEnding)
          : EnterState({CutState::kSaving, CutState::kCopied, CutState::kSaved, CutState::kFailed},
                       CutState::kEnding);
  if (cut == nullptr) {
    return FailedPrecondition("table group '", options_.name,
                              "' has no checkpoint that could be ended as ",
                              committed ? "committed" : "failed");
  }
  if (!committed) {
    cut->Fail(Status(StatusCode::kCancelled, "the cut was given up"));
    StopSaving();
    SharedLock gate(&gate_);
    for (size_t s = 0; s < RowTracker::kStripes; ++s) MarkAgain(*cut, s);
    for (int64_t key : cut->TakeCooled()) {
      Stripe* stripe = tracker_.stripe_of(HashKey(key));
      MutexLock lock(&stripe->mu);
      RowEntry* row = stripe->rows.Find(key, HashKey(key));
      if (row != nullptr) MarkEntryAgain(stripe, row);
    }
  }
  // Walks every row, so before the gate stops the updates. No saver is at work that could see it.
  const bool tags_used_up = cut->tag() == kMaxSavedTag;
  if (tags_used_up) ForgetSavedTags();
  ExclusiveLock gate(&gate_);
  const CutOptions& options = cut->options();
  if (committed) {
    committed_interval_ = options.interval;
    if (options.base && replaced_in_ <= options.interval) base_required_ = false;
  } else if (options.base) {
    base_required_ = true;
  }
  if (tags_used_up) next_tag_ = 1;
  SetState(CutState::kNone, nullptr);
  cut_.reset();
  pool_.reset();
  return Status::OK();
}

void TableGroup::MarkAgain(const Cut& cut, size_t s) {
  Stripe* stripe = tracker_.stripe(s);
  MutexLock lock(&stripe->mu);
  if (!cut.dirty(s).overflowed()) {
    for (int64_t key : cut.dirty(s).keys()) {
      RowEntry* row = stripe->rows.Find(key, HashKey(key));
      if (row != nullptr) MarkEntryAgain(stripe, row);
    }
    return;
  }
  for (size_t i = 0; i < stripe->rows.capacity(); ++i) {
    RowEntry* row = stripe->rows.slot(i);
    if (row->occupied && row->last_updated >= cut.first_interval()) MarkEntryAgain(stripe, row);
  }
}

void TableGroup::MarkEntryAgain(Stripe* stripe, RowEntry* row) {
  if (row->last_updated == interval_) return;
  row->last_updated = interval_;
  stripe->dirty.Add(row->key, stripe->rows.capacity());
}

void TableGroup::ForgetSavedTags() {
  for (size_t s = 0; s < RowTracker::kStripes; ++s) {
    Stripe* stripe = tracker_.stripe(s);
    MutexLock lock(&stripe->mu);
    for (size_t i = 0; i < stripe->rows.capacity(); ++i) stripe->rows.slot(i)->saved = 0;
  }
}

Cut* TableGroup::EnterState(std::initializer_list<CutState> from, CutState to) {
  MutexLock lock(&state_mu_);
  if (std::find(from.begin(), from.end(), cut_state_) == from.end()) return nullptr;
  cut_state_ = to;
  state_changed_.SignalAll();
  return active_cut_;
}

void TableGroup::SetState(CutState state, Cut* cut) {
  MutexLock lock(&state_mu_);
  cut_state_ = state;
  active_cut_ = cut;
  state_changed_.SignalAll();
}

}  // namespace adaptcp
