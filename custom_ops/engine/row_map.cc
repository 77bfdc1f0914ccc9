// SPDX-License-Identifier: Apache-2.0
// Insertion and growth of the open-addressing map.

#include "custom_ops/engine/row_map.h"

#include <atomic>
#include <utility>

namespace adaptcp {
namespace {

constexpr size_t kInitialLines = 4;
// Above this size doubling would waste more memory than rehashing a little more often costs time.
constexpr size_t kDoublingLimit = 256;

size_t NextSize(size_t lines) { return lines < kDoublingLimit ? 2 * lines : lines + 2 * lines / 5; }

uint32_t NextMixer() {
  static std::atomic<uint64_t> number{0};
  return static_cast<uint32_t>(HashKey(static_cast<int64_t>(++number))) | 1;
}

bool IsKept(const RowEntry& entry, uint32_t purge_through) {
  return entry.occupied && !(entry.removed && !entry.listed && entry.last_updated <= purge_through);
}

}  // namespace

RowMap::RowMap()
    : mixer_(NextMixer()), num_lines_(kInitialLines), lines_(new Line[kInitialLines]()) {}

RowEntry* RowMap::FindOrInsert(int64_t key, uint64_t hash, uint32_t purge_through, bool* inserted) {
  RowEntry* entry = Find(key, hash);
  *inserted = entry == nullptr;
  if (entry != nullptr) return entry;
  if (IsTooSmall(used_ + 1, capacity())) Grow(purge_through);
  entry = FreeSlot(hash);
  *entry = RowEntry{};
  entry->key = key;
  entry->occupied = 1;
  ++used_;
  return entry;
}

RowEntry* RowMap::FreeSlot(uint64_t hash) {
  size_t i = Home(hash);
  while (lines_[i].IsFull()) i = Next(i);
  return lines_[i].FirstFree();
}

void RowMap::Reserve(size_t rows) {
  size_t lines = num_lines_;
  while (IsTooSmall(rows, lines * kEntriesPerLine)) lines = NextSize(lines);
  if (lines != num_lines_) Rehash(lines, /*purge_through=*/0);
}

void RowMap::Grow(uint32_t purge_through) {
  size_t kept = 0;
  for (size_t i = 0; i < num_lines_; ++i) {
    for (const RowEntry& entry : lines_[i].entries) kept += IsKept(entry, purge_through);
  }
  size_t lines = num_lines_;
  while (5 * (kept + 1) > 3 * lines * kEntriesPerLine) lines = NextSize(lines);
  Rehash(lines, purge_through);
}

void RowMap::Rehash(size_t num_lines, uint32_t purge_through) {
  const size_t old_lines = num_lines_;
  const std::unique_ptr<Line[]> old = std::move(lines_);
  num_lines_ = num_lines;
  lines_.reset(new Line[num_lines_]());
  used_ = 0;
  ++generation_;
  for (size_t i = 0; i < old_lines; ++i) {
    for (const RowEntry& entry : old[i].entries) {
      if (!IsKept(entry, purge_through)) continue;
      *FreeSlot(HashKey(entry.key)) = entry;
      ++used_;
    }
  }
}

}  // namespace adaptcp
