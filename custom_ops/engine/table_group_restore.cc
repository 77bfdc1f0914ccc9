// SPDX-License-Identifier: Apache-2.0
// Restore: registering rows that were loaded.

#include <utility>

#include "custom_ops/engine/table_group.h"

namespace adaptcp {

Status TableGroup::StartRestore(uint32_t interval, size_t expected_rows) {
  ExclusiveLock gate(&gate_);
  if (cut_ != nullptr) {
    return FailedPrecondition("table group '", options_.name,
                              "' is still saving a checkpoint; wait for it before restoring");
  }
  if (interval >= kMaxInterval) {
    return InvalidArgument("interval ", interval, " is beyond the highest, ", kMaxInterval - 1);
  }
  ForgetRowsLocked();
  tracker_.Reserve(expected_rows);
  interval_ = interval + 1;
  committed_interval_ = interval;
  // Until FinishRestore: half a restore is in no chain.
  base_required_ = true;
  replaced_in_ = 0;
  replacing_ = false;
  restored_rows_ = 0;
  return Status::OK();
}

void TableGroup::FinishRestore() {
  ExclusiveLock gate(&gate_);
  base_required_ = false;
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
  for (uint32_t last_updated : block.last_updated) {
    if (last_updated <= committed_interval_) continue;
    return DataLoss("a row was last updated in interval ", last_updated,
                    ", after the checkpoint's interval ", committed_interval_);
  }
  const auto restore_run = [&](Stripe* stripe, const HashedKey* run, size_t n, bool) {
    MutexLock lock(&stripe->mu);
    const auto restore_row = [&](const HashedKey& key, RowEntry* row) TF_NO_THREAD_SAFETY_ANALYSIS {
      if (row == nullptr) (*live)[key.index] = RestoreRow(block, kind, key, stripe);
    };
    stripe->rows.FindAll(run, n, restore_row);
    return true;
  };
  tracker_.VisitByStripe(keys.data(), keys.size(), restore_run);
  return Status::OK();
}

bool TableGroup::RestoreRow(const RowBlock& block, SegmentKind kind, const HashedKey& key,
                            Stripe* stripe) {
  bool inserted;
  // Tombstones must stay until the older segments were read: nothing is purged.
  RowEntry* row = stripe->rows.FindOrInsert(key.key, key.hash, /*purge_through=*/0, &inserted);
  // A key that stands twice in the block.
  if (!inserted) return false;
  row->last_updated = block.last_updated[key.index];
  row->rate = block.rates[key.index];
  row->history = block.flags[key.index] >> kRowHistoryShift;
  if (block.flags[key.index] & kRowTombstone) {
    row->removed = 1;
    return false;
  }
  ++stripe->live;
  row->hot = (block.flags[key.index] & kRowHot) != 0;
  if (kind == SegmentKind::kDifferential) {
    row->standing = 1;
    row->listed = !stripe->standing.overflowed();
    stripe->standing.Add(key.key, stripe->rows.capacity());
  }
  return true;
}

}  // namespace adaptcp
