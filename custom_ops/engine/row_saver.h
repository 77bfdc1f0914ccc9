// SPDX-License-Identifier: Apache-2.0
// Copies rows of a cut from the tables into blocks, and decides the class of each.

#ifndef ADAPTCP_ENGINE_ROW_SAVER_H_
#define ADAPTCP_ENGINE_ROW_SAVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/engine/cut.h"
#include "custom_ops/engine/key_interner.h"
#include "custom_ops/engine/row_tracker.h"

namespace adaptcp {

// Who saves: an update that is about to change the row, the drain, or an input thread that knows of
// an update to come.
enum class SaveReason { kUpdate, kDrain, kPrefetch };

// Used by one thread for one update, drain or prefetch, in batches of keys of one stripe.
//
// An update holds the stripe's mutex all the while: Reserve, lock, Add each row that Needs it,
// Read, Append, unlock; it then marks and changes the rows. The drain, which reads many more rows,
// and a prefetch must not keep updates waiting: they hold the mutex to Add and again to Append, and
// read in between. Append takes only those rows that the cut still needs, so what an update has
// saved and changed meanwhile is dropped.
class RowSaver {
 public:
  // `interner` translates keys of string tables, nullptr for integer keys. All outlive the saver.
  RowSaver(Cut* cut, const RateModel* rates, KeyInterner* interner, SaveReason reason);
  // Hands blocks, counts and tombstones to the cut.
  ~RowSaver();
  RowSaver(const RowSaver&) = delete;
  RowSaver& operator=(const RowSaver&) = delete;

  // Most rows of a batch.
  size_t max_rows() const { return max_rows_; }

  // Most rows that a call of CopyNeeded can take.
  size_t block_capacity() const { return cut_->block_capacity(); }

  // Starts a batch of at most `rows` rows and makes room for them. May wait for memory, so no
  // stripe may be locked.
  void Reserve(size_t rows);

  // True when the cut holds the row and nobody saved it yet.
  bool Needs(const RowEntry& row) const;

  // Puts a row that the cut needs into the batch.
  void Add(const RowEntry& row);
  // Looks keys of the stripe up and adds those rows that the cut needs; false when there are none.
  bool AddNeeded(Stripe* stripe, const HashedKey* keys, size_t n)
      TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);

  // Gives those rows that the cut needs to the cut, with the values of the insert they were sorted
  // from. False, with nothing done, when a key stands there twice, since nobody knows which of its
  // values the tables kept. At most as many keys as were reserved.
  bool CopyNeeded(Stripe* stripe, const HashedKey* keys, size_t n, const LoggedInsert& insert)
      TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);

  // Makes each key of the batch stand there once: as ids of samples, popular keys come by hundreds.
  void DropDuplicates();

  // Reads the batch from all tables. On an error the cut must fail.
  Status Read();

  // Gives the rows of the batch that the cut still needs to the cut, and marks them as saved.
  void Append(Stripe* stripe) TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);

  // Hands tombstones to the cut, which Reserve and the destructor do too. May wait like Reserve.
  void FlushTombstones();

  void AddStall(uint64_t nanos) { counts_.stall_nanos += nanos; }

 private:
  // Rows of a batch that go into one lane.
  struct Batch {
    std::unique_ptr<RowBlock> block;  // nullptr when nothing goes into the lane
    std::vector<int64_t> keys;
  };

  bool IsHot(const RowEntry& row) const;
  size_t LaneOf(const RowEntry& row) const;
  Status ReadLane(Batch* batch);
  void AppendLane(size_t lane, Stripe* stripe) TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);
  void AppendRow(size_t lane, RowEntry* row, Stripe* stripe)
      TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);
  void AddTombstone(RowEntry* row, Stripe* stripe) TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);
  void AppendKey(const RowEntry& row, uint8_t flags, RowBlock* block);

  // Constant after construction.
  Cut* const cut_;
  const RateModel* const rates_;
  KeyInterner* const interner_;
  const SaveReason reason_;
  const size_t max_rows_;

  std::array<Batch, kLanes> batches_;
  // Rows of a logged insert that the cut needs, and where their values stand.
  struct Logged {
    RowEntry* row;
    uint32_t index;
  };
  std::vector<Logged> logged_;
  std::vector<RowEntry> tombstones_;  // copies: entries move when the map grows
  std::vector<int64_t> cooled_;
  CutCounts counts_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_ROW_SAVER_H_
