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

// Who saves: an update that is about to change the row, or the drain.
enum class SaveReason { kUpdate, kDrain };

// Used by one thread for one update or one drain. Per stripe: Reserve, lock, Add each row that
// Needs it, Save, unlock.
class RowSaver {
 public:
  // `interner` translates keys of string tables, nullptr for integer keys. All outlive the saver.
  RowSaver(Cut* cut, const RateModel* rates, KeyInterner* interner, SaveReason reason);
  // Hands blocks, counts and tombstones to the cut.
  ~RowSaver();
  RowSaver(const RowSaver&) = delete;
  RowSaver& operator=(const RowSaver&) = delete;

  // Most rows that one Reserve may ask for.
  size_t max_rows() const { return max_rows_; }

  // Makes room for `rows` rows. May wait for memory, so no stripe may be locked.
  void Reserve(size_t rows);

  // True when the cut holds the row and nobody saved it yet.
  bool Needs(const RowEntry& row) const;

  // Claims the row for this cut. Its values are read by Save, before the stripe is unlocked.
  void Add(RowEntry* row);

  // Reads the added rows from all tables. On an error the cut must fail.
  Status Save(Stripe* stripe) TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);

  // Hands tombstones to the cut, which Reserve and the destructor do too. May wait like Reserve.
  void FlushTombstones();

  void AddStall(uint64_t nanos) { counts_.stall_nanos += nanos; }

 private:
  static constexpr size_t kNone = kLanes;

  bool IsHot(const RowEntry& row) const;
  Status SaveLane(size_t lane, Stripe* stripe) TF_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu);
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

  std::array<std::unique_ptr<RowBlock>, kLanes> blocks_;
  std::array<std::vector<RowEntry*>, kLanes> added_;
  std::vector<int64_t> keys_;           // scratch of SaveLane
  std::vector<RowEntry> tombstones_;    // copies: entries move when the map grows
  std::vector<int64_t> cooled_;
  CutCounts counts_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_ROW_SAVER_H_
