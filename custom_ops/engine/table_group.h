// SPDX-License-Identifier: Apache-2.0
// Save-on-Update for one table group on one shard: the protocol between updates and cuts.

#ifndef ADAPTCP_ENGINE_TABLE_GROUP_H_
#define ADAPTCP_ENGINE_TABLE_GROUP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/engine/block_pool.h"
#include "custom_ops/engine/cut.h"
#include "custom_ops/engine/key_interner.h"
#include "custom_ops/engine/prefetch_window.h"
#include "custom_ops/engine/rate_histogram.h"
#include "custom_ops/engine/recent_batch.h"
#include "custom_ops/engine/row_saver.h"
#include "custom_ops/engine/row_tracker.h"
#include "custom_ops/engine/table.h"
#include "custom_ops/engine/update_log.h"
#include "custom_ops/engine/wait_group.h"
#include "custom_ops/io/file_system.h"

namespace adaptcp {

struct TableGroupOptions {
  std::string name;
  uint32_t shard = 0;
  uint32_t num_shards = 1;
  KeyType key_type = KeyType::kInt64;
};

struct DrainResult {
  std::vector<WrittenSegment> segments;
  CutCounts counts;
};

struct GroupStats {
  std::vector<uint64_t> table_rows;  // of each table, just before `rows` was counted
  uint64_t rows = 0;                 // keys that some table of the group may hold
  uint64_t rows_to_save = 0;         // at most, by a cut now that is not a base, tombstones aside
  uint64_t tracker_bytes = 0;        // memory of the tracker
  uint32_t interval = 0;             // the current, open interval
  bool base_required = false;        // earlier segments do not describe the tables any more
  bool cut_active = false;
  uint64_t restored_rows = 0;  // loaded by the latest restore so far
};

// Thread-safe. Locks are taken in this order: gate_, a stripe's mutex, everything else.
//
// The promise: the segments of a cut hold, for each row, the values it had when Begin returned.
// Update saves a row of the cut before it marks it and changes it, and holds the stripe's mutex
// from the check to the mark; Drain reads the others without it and then, under it, keeps what no
// update has saved meanwhile. So one row is saved once. The gate keeps Begin from slipping between
// the mark and the change of an update.
class TableGroup {
 public:
  TableGroup(const TableGroupOptions& options, BlockBudget* budget, UpdateLogBudget* log_budget);
  ~TableGroup();
  TableGroup(const TableGroup&) = delete;
  TableGroup& operator=(const TableGroup&) = delete;

  const TableGroupOptions& options() const { return options_; }
  // Used by groups with string keys only.
  KeyInterner* interner() { return &interner_; }

  // Adds the table with number `index`; numbers are given out in order. Attaching the same table
  // again is fine, another one in its place is FailedPrecondition.
  Status Attach(size_t index, const void* identity, std::unique_ptr<Table> table)
      TF_LOCKS_EXCLUDED(gate_);
  // True when `identity` is attached as number `index`.
  bool IsAttached(size_t index, const void* identity) TF_LOCKS_EXCLUDED(gate_);

  // Saves what an active cut still needs of the rows, marks them updated in the current interval
  // and then runs `apply`, which changes one or more tables of the group. Begin waits for it.
  Status Update(const KeyBatch& batch, const std::function<Status()>& apply)
      TF_LOCKS_EXCLUDED(gate_);

  // Update, for an `apply` that inserts `values` into table number `table` and does nothing else.
  // The next cut may take rows from there.
  Status Insert(const KeyBatch& batch, size_t table, const RowValues& values,
                const std::function<Status()>& apply) TF_LOCKS_EXCLUDED(gate_);

  // Tells that the rows will soon be updated: a drain saves them first, so that the update need
  // not.
  void WillUpdate(const KeyBatch& batch) TF_LOCKS_EXCLUDED(gate_);
  // Tells the same long before, on a thread that prepares input: saves on this thread what an
  // active cut needs of the batch and of up to `window` - 1 batches before it, and changes nothing.
  // Keys without a row are ignored. A cut that begins later has these batches saved first. May wait
  // for memory, but holds no lock that an update needs while it reads or waits.
  void SaveBeforeUpdate(LazyKeyBatch batch, size_t window) TF_LOCKS_EXCLUDED(gate_);
  // Whether anybody wants to know.
  bool IsSaving() TF_LOCKS_EXCLUDED(gate_);

  // Brackets for changes the group cannot run itself (accumulate): save and mark before the change,
  // mark again after it, since a cut may have begun in between.
  Status MarkUpdated(const KeyBatch& batch) TF_LOCKS_EXCLUDED(gate_);

  // Brackets for changes to whole tables (clear, import). The first waits until no cut needs a row
  // any more; the second forgets all rows, takes `keys` as updated in the current interval, and
  // requires the next cut to be a base.
  void BeforeReplace() TF_LOCKS_EXCLUDED(gate_);
  Status AfterReplace(const int64_t* keys, size_t n) TF_LOCKS_EXCLUDED(gate_);

  // Takes rows that were in the tables before tracking started as updated in the current interval.
  Status Adopt(const int64_t* keys, size_t n) TF_LOCKS_EXCLUDED(gate_);

  // Closes the current interval in all groups at one instant. Costs a lock and a swap a stripe. On
  // an error no group has begun. FailedPrecondition: a cut is active (told at once, whatever its
  // updates wait for), or a base is required and not asked for. InvalidArgument: options.interval
  // is before a group's current interval (a group that is behind, since it was made later, skips
  // ahead), or hot_threshold, hysteresis or the half-life is out of range or not a number.
  static Status Begin(std::vector<TableGroup*> groups,
                      const CutOptions& options) TF_NO_THREAD_SAFETY_ANALYSIS;

  // Copies all rows of the active cut into memory, for a snapshot during which training stands
  // still; Drain then only writes. What goes wrong, Drain tells.
  Status CopyRows() TF_LOCKS_EXCLUDED(gate_);

  // Saves the rest of the active cut and finishes its segments, with at most so many threads that
  // write. One call a cut. After an error the cut can only be ended as failed.
  Status Drain(FileSystem* file_system, const std::string& directory,
               const std::string& file_prefix, size_t max_writers, DrainResult* result)
      TF_LOCKS_EXCLUDED(gate_);

  // Ends the active cut. When it was not committed its rows count as updated in the current
  // interval, so that the next cut holds them; after a base, the next cut must be a base too.
  Status EndCut(bool committed) TF_LOCKS_EXCLUDED(gate_);

  GroupStats Stats() TF_LOCKS_EXCLUDED(gate_);
  // How the rows' update rates are distributed, as of the end of the last closed interval; from a
  // sample when there are many rows.
  RateHistogram Rates() TF_LOCKS_EXCLUDED(gate_);

  // --- Restore: no update and no cut may run meanwhile ---

  // Forgets all rows, makes room for so many and continues after `interval`, the interval of the
  // restored checkpoint. Until FinishRestore the next cut must be a base.
  Status StartRestore(uint32_t interval, size_t expected_rows) TF_LOCKS_EXCLUDED(gate_);
  void FinishRestore() TF_LOCKS_EXCLUDED(gate_);
  // Registers the rows of a key block of a segment of `kind`, newest segment first; sets live[i] to
  // 1 for keys not seen before that hold a row. Safe on several threads for one segment.
  Status RestoreRows(const RowBlock& block, SegmentKind kind, std::vector<uint8_t>* live)
      TF_LOCKS_EXCLUDED(gate_);
  // The block's keys, string keys as the numbers they were given.
  std::vector<int64_t> KeysOf(const RowBlock& block);
  // Counts rows whose values are loaded, for those who watch Stats.
  void AddRestoredRows(uint64_t rows) { restored_rows_ += rows; }
  // The attached tables, for the restorer; they stay attached until the group is destroyed.
  std::vector<Table*> tables() TF_LOCKS_EXCLUDED(gate_);

 private:
  // kSaving: updates save, the drain has not started. kCopied: every row is in memory, none is
  // being written. kFinishing: every row is saved, the segments are not durable yet. kSaved: they
  // are. kEnding: EndCut is at work.
  enum class CutState { kNone, kSaving, kDraining, kCopied, kFinishing, kSaved, kFailed, kEnding };

  void SaveAndMark(const KeyBatch& batch) TF_SHARED_LOCKS_REQUIRED(gate_);
  void MarkKeys(const int64_t* keys, size_t n) TF_SHARED_LOCKS_REQUIRED(gate_);
  void MarkRun(Stripe* stripe, const HashedKey* keys, size_t n) TF_SHARED_LOCKS_REQUIRED(gate_);
  // Returns false, with nothing done, when the stripe is busy and the caller may come again.
  bool SaveAndMarkRun(Stripe* stripe, const HashedKey* keys, size_t n, bool may_postpone,
                      RowSaver* saver) TF_SHARED_LOCKS_REQUIRED(gate_);
  void MarkLocked(Stripe* stripe, const HashedKey* keys, size_t n) TF_SHARED_LOCKS_REQUIRED(gate_)
      TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);
  // `row` is nullptr for a key that the stripe does not have.
  void MarkOne(Stripe* stripe, const HashedKey& key, RowEntry* row) TF_SHARED_LOCKS_REQUIRED(gate_)
      TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);
  Status CheckCanBegin(const CutOptions& options) TF_EXCLUSIVE_LOCKS_REQUIRED(gate_);
  void BeginLocked(const CutOptions& options) TF_EXCLUSIVE_LOCKS_REQUIRED(gate_);
  // Saves all rows that no update has saved. What goes wrong makes the cut fail.
  void SaveRows(Cut* cut) TF_LOCKS_EXCLUDED(gate_);
  Status DrainStripe(Cut* cut, size_t stripe, RowSaver* saver);
  Status DrainKeys(Cut* cut, Stripe* stripe, const std::vector<int64_t>& keys, RowSaver* saver);
  Status DrainAll(Cut* cut, Stripe* stripe, RowSaver* saver);
  // Saves the rows in demand.
  Status DrainUrgent(Cut* cut, RowSaver* saver);
  // Saves the rows of the prefetched batches that nobody has taken for this cut.
  Status SavePrefetched(Cut* cut, RowSaver* saver);
  Status DrainBatch(const KeyBatch& batch, RowSaver* saver);
  // Saves rows from the inserts that the cut took over.
  Status DrainInserts(Cut* cut, RowSaver* saver);
  static Status DrainInsertedRun(Stripe* stripe, const HashedKey* keys, size_t n,
                                 const LoggedInsert& insert, RowSaver* saver);
  static Status DrainRun(Stripe* stripe, const HashedKey* keys, size_t n, RowSaver* saver);
  // The active cut if it needs rows, which then lives on until savers_ahead_ is left; or nullptr.
  Cut* EnterCut() TF_LOCKS_EXCLUDED(gate_);
  // From here on no thread appends to the cut but the caller.
  void StopSaving() TF_LOCKS_EXCLUDED(gate_);
  // Moves on from one of the states `from` and returns the active cut; nullptr when in no such
  // state.
  Cut* EnterState(std::initializer_list<CutState> from, CutState to) TF_LOCKS_EXCLUDED(state_mu_);
  // Makes the stripe's list of standing rows true again after a drain.
  static void Relist(Stripe* stripe) TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);
  static void RelistAll(Stripe* stripe) TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);
  // Counts what a failed cut was to save as updated in the current interval.
  void MarkAgain(const Cut& cut, size_t stripe) TF_SHARED_LOCKS_REQUIRED(gate_);
  void MarkEntryAgain(Stripe* stripe, RowEntry* row) TF_SHARED_LOCKS_REQUIRED(gate_)
      TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);
  void ForgetSavedTags();
  Status CheckNoCut() TF_LOCKS_EXCLUDED(state_mu_);
  void SetState(CutState state, Cut* cut) TF_LOCKS_EXCLUDED(state_mu_);
  // False when the key is known already or was removed.
  static bool RestoreRow(const RowBlock& block, SegmentKind kind, const HashedKey& key,
                         Stripe* stripe) TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);
  void ForgetRowsLocked() TF_EXCLUSIVE_LOCKS_REQUIRED(gate_);
  KeyInterner* interner_or_null() {
    return options_.key_type == KeyType::kString ? &interner_ : nullptr;
  }

  // Constant after construction.
  const TableGroupOptions options_;
  BlockBudget* const budget_;

  // Own synchronisation.
  KeyInterner interner_;
  RowTracker tracker_;
  RecentBatch recent_;
  UpdateLog log_;
  PrefetchWindow prefetched_;
  // Input threads that append to the active cut. They enter under the gate, but do not hold it.
  WaitGroup savers_ahead_;
  std::atomic<uint64_t> restored_rows_{0};

  // Updates hold it shared for the length of one update, Begin exclusively for microseconds.
  SharedMutex gate_;
  std::vector<std::unique_ptr<Table>> tables_ TF_GUARDED_BY(gate_);
  std::vector<const void*> identities_ TF_GUARDED_BY(gate_);
  uint32_t interval_ TF_GUARDED_BY(gate_) = 1;
  uint32_t committed_interval_ TF_GUARDED_BY(gate_) = 0;
  uint32_t next_tag_ TF_GUARDED_BY(gate_) = 1;
  bool base_required_ TF_GUARDED_BY(gate_) = false;
  // The interval of the latest replacement: a base that was cut before does not describe it.
  uint32_t replaced_in_ TF_GUARDED_BY(gate_) = 0;
  bool replacing_ TF_GUARDED_BY(gate_) = false;
  // Whether updates of the active cut's rows must save them.
  bool must_save_ TF_GUARDED_BY(gate_) = false;
  std::unique_ptr<BlockPool> pool_ TF_GUARDED_BY(gate_);
  std::unique_ptr<Cut> cut_ TF_GUARDED_BY(gate_);

  // The life of the cut, apart from the gate: an update may hold the gate while it waits for
  // memory, which it gets when the drain starts or the cut is given up. Taken last.
  Mutex state_mu_;
  CondVar state_changed_;
  CutState cut_state_ TF_GUARDED_BY(state_mu_) = CutState::kNone;
  Cut* active_cut_ TF_GUARDED_BY(state_mu_) = nullptr;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_TABLE_GROUP_H_
