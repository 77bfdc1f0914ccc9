// SPDX-License-Identifier: Apache-2.0
// Updates, begin, drain and end of a cut.

#include "custom_ops/engine/table_group.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace adaptcp {
namespace {

// A block's values are about this long: long enough for sequential writes and for restore to read
// at full speed, short enough that a dozen groups' open blocks do not add up.
constexpr size_t kBlockValueBytes = size_t{1} << 20;
constexpr size_t kMinBlockRows = 64;
constexpr size_t kMaxBlockRows = size_t{1} << 16;

// How far a drain that walks a stripe gets before it lets updates in.
constexpr size_t kMaxSlotsPerLock = 4096;

size_t BlockCapacity(const std::vector<uint32_t>& row_bytes) {
  size_t bytes = 0;
  for (uint32_t b : row_bytes) bytes += b;
  return std::clamp(kBlockValueBytes / std::max<size_t>(bytes, 1), kMinBlockRows, kMaxBlockRows);
}

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

TableGroup::TableGroup(const TableGroupOptions& options, BlockBudget* budget)
    : options_(options), budget_(budget), tracker_(options.rate_half_life_intervals) {}

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
  SaveAndMark(batch);
  return apply();
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
  for (size_t i = 0; i < n; ++i) stripe->rows.Prefetch(keys[i].hash);
  for (size_t i = 0; i < n; ++i) MarkOne(stripe, keys[i]);
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
    for (size_t i = begin; i < end; ++i) stripe->rows.Prefetch(keys[i].hash);
    bool needed = false;
    for (size_t i = begin; i < end; ++i) {
      const RowEntry* row = stripe->rows.Find(keys[i].key, keys[i].hash);
      if (row == nullptr || !saver->Needs(*row)) continue;
      saver->Add(*row);
      needed = true;
    }
    if (needed) {
      StallTimer timer(saver);
      const Status read = saver->Read();
      // Training goes on after a failed read, the cut fails.
      if (read.ok()) {
        saver->Append(stripe);
      } else {
        cut_->Fail(read);
      }
    }
    for (size_t i = begin; i < end; ++i) MarkOne(stripe, keys[i]);
    stripe->mu.Unlock();
  }
  return true;
}

void TableGroup::MarkOne(Stripe* stripe, const HashedKey& key) {
  RowEntry* row = stripe->rows.Find(key.key, key.hash);
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
  MarkKeys(keys, n);
  return Status::OK();
}

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
  pool_ = std::make_unique<BlockPool>(budget_, row_bytes, BlockCapacity(row_bytes));
  cut_ = std::make_unique<Cut>(options, interval_, next_tag_, pool_.get(), std::move(tables),
                               std::move(dirty));
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

Status TableGroup::Drain(FileSystem* file_system, const std::string& directory,
                         const std::string& file_prefix, DrainResult* result) {
  Cut* const cut = EnterState({CutState::kSaving}, CutState::kDraining);
  if (cut == nullptr) {
    return FailedPrecondition("table group '", options_.name, "' has no checkpoint to drain");
  }
  SegmentHeader header;
  header.group = options_.name;
  header.shard = options_.shard;
  header.num_shards = options_.num_shards;
  header.key_type = options_.key_type;
  for (Table* table : cut->tables()) header.tables.push_back(table->spec());
  cut->StartWriting(file_system, directory, file_prefix, header);
  Status status;
  {
    RowSaver saver(cut, &tracker_.rates(), interner_or_null(), SaveReason::kDrain);
    for (size_t s = 0; s < RowTracker::kStripes && status.ok(); ++s) {
      status.Update(DrainStripe(cut, s, &saver));
      status.Update(cut->status());
    }
  }
  if (!status.ok()) cut->Fail(status);
  {
    // Waits for updates that may still append to the cut.
    ExclusiveLock gate(&gate_);
    must_save_ = false;
  }
  SetState(CutState::kFinishing, cut);
  const Status finished = cut->FinishWriting(&result->segments);
  result->counts = cut->counts();
  SetState(finished.ok() ? CutState::kSaved : CutState::kFailed, cut);
  return finished;
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
    for (size_t i = begin; i < end; ++i) run.push_back({keys[i], HashKey(keys[i])});
    ADAPTCP_RETURN_IF_ERROR(DrainRun(stripe, run.data(), run.size(), saver));
  }
  return Status::OK();
}

Status TableGroup::DrainUrgent(Cut* cut, RowSaver* saver) {
  Status status;
  KeyBatch batch;
  while (status.ok() && cut->TakeUrgent(&batch)) {
    tracker_.VisitByStripe(batch.keys, batch.size,
                           [&](Stripe* stripe, const HashedKey* run, size_t count, bool) {
                             if (status.ok()) status = DrainRun(stripe, run, count, saver);
                             return true;
                           });
  }
  return status;
}

Status TableGroup::DrainRun(Stripe* stripe, const HashedKey* keys, size_t n, RowSaver* saver) {
  for (size_t begin = 0; begin < n; begin += saver->max_rows()) {
    const size_t end = std::min(n, begin + saver->max_rows());
    saver->Reserve(end - begin);
    {
      MutexLock lock(&stripe->mu);
      for (size_t i = begin; i < end; ++i) stripe->rows.Prefetch(keys[i].hash);
      for (size_t i = begin; i < end; ++i) {
        const RowEntry* row = stripe->rows.Find(keys[i].key, keys[i].hash);
        if (row != nullptr && saver->Needs(*row)) saver->Add(*row);
      }
    }
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
  Cut* const cut = committed ? EnterState({CutState::kSaved}, CutState::kEnding)
                             : EnterState({CutState::kSaving, CutState::kSaved, CutState::kFailed},
                                          CutState::kEnding);
  if (cut == nullptr) {
    return FailedPrecondition("table group '", options_.name,
                              "' has no checkpoint that could be ended as ",
                              committed ? "committed" : "failed");
  }
  if (!committed) {
    cut->Fail(Status(StatusCode::kCancelled, "the cut was given up"));
    {
      ExclusiveLock gate(&gate_);
      must_save_ = false;
    }
    SharedLock gate(&gate_);
    for (size_t s = 0; s < RowTracker::kStripes; ++s) MarkAgain(*cut, s);
    for (int64_t key : cut->TakeCooled()) {
      Stripe* stripe = tracker_.stripe_of(HashKey(key));
      MutexLock lock(&stripe->mu);
      RowEntry* row = stripe->rows.Find(key, HashKey(key));
      if (row != nullptr) MarkEntryAgain(stripe, row);
    }
  }
  ExclusiveLock gate(&gate_);
  const CutOptions& options = cut->options();
  if (committed) {
    committed_interval_ = options.interval;
    if (options.base && replaced_in_ <= options.interval) base_required_ = false;
  } else if (options.base) {
    base_required_ = true;
  }
  if (next_tag_ > kMaxSavedTag) {
    ForgetSavedTags();
    next_tag_ = 1;
  }
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

GroupStats TableGroup::Stats() {
  SharedLock gate(&gate_);
  GroupStats stats;
  size_t rows, bytes;
  tracker_.MeasureSize(&rows, &bytes);
  stats.rows = rows;
  stats.tracker_bytes = bytes;
  stats.interval = interval_;
  stats.base_required = base_required_;
  stats.cut_active = cut_ != nullptr;
  stats.restored_rows = restored_rows_;
  return stats;
}

void TableGroup::ForgetRowsLocked() {
  tracker_.Clear();
  recent_.Forget();
}

Status TableGroup::StartRestore(uint32_t interval) {
  ExclusiveLock gate(&gate_);
  if (cut_ != nullptr) {
    return FailedPrecondition("table group '", options_.name,
                              "' is still saving a checkpoint; wait for it before restoring");
  }
  if (interval >= kMaxInterval) {
    return InvalidArgument("interval ", interval, " is beyond the highest, ", kMaxInterval - 1);
  }
  ForgetRowsLocked();
  interval_ = interval + 1;
  committed_interval_ = interval;
  base_required_ = false;
  replaced_in_ = 0;
  replacing_ = false;
  restored_rows_ = 0;
  return Status::OK();
}

std::vector<int64_t> TableGroup::KeysOf(const RowBlock& block) {
  if (options_.key_type != KeyType::kString) return block.keys;
  std::vector<int64_t> keys;
  keys.reserve(block.rows());
  for (const std::string& key : block.string_keys) keys.push_back(interner_.Intern(key));
  return keys;
}

Status TableGroup::RestoreRows(const RowBlock& block, SegmentKind kind,
                               std::vector<uint8_t>* live) {
  SharedLock gate(&gate_);
  const std::vector<int64_t> keys = KeysOf(block);
  live->assign(keys.size(), 0);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (block.last_updated[i] > committed_interval_) {
      return DataLoss("a row was last updated in interval ", block.last_updated[i],
                      ", after the checkpoint's interval ", committed_interval_);
    }
    const uint64_t hash = HashKey(keys[i]);
    Stripe* stripe = tracker_.stripe_of(hash);
    MutexLock lock(&stripe->mu);
    bool inserted;
    // Tombstones must stay until the older segments were read: nothing is purged.
    RowEntry* row = stripe->rows.FindOrInsert(keys[i], hash, /*purge_through=*/0, &inserted);
    if (!inserted) continue;
    row->last_updated = block.last_updated[i];
    row->rate = block.rates[i];
    row->history = block.flags[i] >> kRowHistoryShift;
    if (block.flags[i] & kRowTombstone) {
      row->removed = 1;
      continue;
    }
    ++stripe->live;
    (*live)[i] = 1;
    row->hot = (block.flags[i] & kRowHot) != 0;
    if (kind == SegmentKind::kDifferential) {
      row->standing = 1;
      row->listed = !stripe->standing.overflowed();
      stripe->standing.Add(keys[i], stripe->rows.capacity());
    }
  }
  return Status::OK();
}

std::vector<Table*> TableGroup::tables() {
  SharedLock gate(&gate_);
  std::vector<Table*> tables;
  for (const auto& table : tables_) tables.push_back(table.get());
  return tables;
}

}  // namespace adaptcp
