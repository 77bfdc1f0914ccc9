// SPDX-License-Identifier: Apache-2.0
// Insertion and growth of the open-addressing map.

#include "custom_ops/engine/row_map.h"

namespace adaptcp {
namespace {

constexpr size_t kInitialCapacity = 16;
// Above this size doubling would waste more memory than rehashing a little more often costs time.
constexpr size_t kDoublingLimit = 1024;

size_t NextCapacity(size_t capacity) {
  return capacity < kDoublingLimit ? 2 * capacity : capacity + 2 * capacity / 5;
}

}  // namespace

RowMap::RowMap() : capacity_(kInitialCapacity), slots_(new RowEntry[kInitialCapacity]()) {}

RowEntry* RowMap::FindOrInsert(int64_t key, uint64_t hash, uint32_t purge_through, bool* inserted) {
  size_t i = Home(hash);
  for (; slots_[i].occupied; i = i + 1 == capacity_ ? 0 : i + 1) {
    if (slots_[i].key == key) {
      *inserted = false;
      return &slots_[i];
    }
  }
  if (5 * (used_ + 1) > 4 * capacity_) {
    Grow(purge_through);
    for (i = Home(hash); slots_[i].occupied;) i = i + 1 == capacity_ ? 0 : i + 1;
  }
  RowEntry* entry = &slots_[i];
  *entry = RowEntry{};
  entry->key = key;
  entry->occupied = 1;
  ++used_;
  *inserted = true;
  return entry;
}

void RowMap::Grow(uint32_t purge_through) {
  const size_t old_capacity = capacity_;
  std::unique_ptr<RowEntry[]> old = std::move(slots_);
  const auto keep = [purge_through](const RowEntry& entry) {
    return entry.occupied &&
           !(entry.removed && !entry.listed && entry.last_updated <= purge_through);
  };
  size_t kept = 0;
  for (size_t i = 0; i < old_capacity; ++i) kept += keep(old[i]);
  while (5 * (kept + 1) > 3 * capacity_) capacity_ = NextCapacity(capacity_);
  slots_.reset(new RowEntry[capacity_]());
  used_ = kept;
  ++generation_;
  for (size_t i = 0; i < old_capacity; ++i) {
    if (!keep(old[i])) continue;
    size_t j = Home(HashKey(old[i].key));
    while (slots_[j].occupied) j = j + 1 == capacity_ ? 0 : j + 1;
    slots_[j] = old[i];
  }
}

}  // namespace adaptcp
