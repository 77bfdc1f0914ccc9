// SPDX-License-Identifier: Apache-2.0
// Restore: registering rows that were loaded.

#include <utility>

#include "custom_ops/engine/table_group.h"

namespace adaptcp {

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

}  // namespace adaptcp
