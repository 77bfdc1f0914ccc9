// SPDX-License-Identifier: Apache-2.0
// Open-addressing map from key to RowEntry; one per stripe of the tracker, guarded by its mutex.

#ifndef ADAPTCP_ENGINE_ROW_MAP_H_
#define ADAPTCP_ENGINE_ROW_MAP_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "custom_ops/engine/row_entry.h"

namespace adaptcp {

// A key of a batch that was sorted by stripe, which used up the upper half of its hash.
struct HashedKey {
  int64_t key;
  uint32_t hash;   // lower half of HashKey(key)
  uint32_t index;  // of the key in the batch
};

inline uint64_t HashKey(int64_t key) {
  uint64_t h = static_cast<uint64_t>(key);
  h ^= h >> 33;
  h *= UINT64_C(0xff51afd7ed558ccd);
  h ^= h >> 33;
  h *= UINT64_C(0xc4ceb9fe1a85ec53);
  h ^= h >> 33;
  return h;
}

// Linear probing over cache lines of four entries, at a load of 0.57 to 0.8: 20 to 28 bytes a row.
// All four keys of a line are compared without a branch, since where in the line a key stands
// cannot be predicted. Entries are never erased one by one; growing drops those whose tombstone is
// durable. Pointers live until the next insertion.
class RowMap {
 public:
  RowMap();

  // nullptr when absent.
  RowEntry* Find(int64_t key, uint64_t hash) {
    for (size_t i = Home(hash);; i = Next(i)) {
      if (RowEntry* entry = lines_[i].Find(key)) return entry;
      if (!lines_[i].IsFull()) return nullptr;
    }
  }

  // A new entry is zero but for its key. Growing forgets removed entries last updated at or before
  // `purge_through`.
  RowEntry* FindOrInsert(int64_t key, uint64_t hash, uint32_t purge_through, bool* inserted);

  // Makes room for `rows` entries at once.
  void Reserve(size_t rows);

  // Calls visit(key, entry or nullptr) for each of n keys, in any order. Much faster than Find one
  // by one, since memory is asked for many lines at a time: first for the line of each key, then
  // for the next one of those, one in eight, that do not end there. `visit` may insert.
  template <typename Visit>
  void FindAll(const HashedKey* keys, size_t n, Visit visit);

  size_t used() const { return used_; }
  size_t capacity() const { return num_lines_ * kEntriesPerLine; }
  RowEntry* slot(size_t i) { return &lines_[i / kEntriesPerLine].entries[i % kEntriesPerLine]; }
  // Changes whenever entries move.
  uint64_t generation() const { return generation_; }

 private:
  static constexpr size_t kEntriesPerLine = 4;

  // Filled from the front.
  struct alignas(64) Line {
    std::array<RowEntry, kEntriesPerLine> entries;

    RowEntry* Find(int64_t key) {
      // Unrolled by hand: compilers make a loop of it.
      const uint32_t found = Match(key, 0) | Match(key, 1) | Match(key, 2) | Match(key, 3);
      return found == 0 ? nullptr : &entries[__builtin_ctz(found)];
    }
    uint32_t Match(int64_t key, size_t i) const {
      return static_cast<uint32_t>(entries[i].key == key) * entries[i].occupied << i;
    }
    bool IsFull() const { return entries.back().occupied; }
    RowEntry* FirstFree() {
      size_t i = 0;
      while (entries[i].occupied) ++i;
      return &entries[i];
    }
  };
  static_assert(sizeof(Line) == 64, "a line is what the processor fetches at once");

  static constexpr size_t kKeysAtATime = 128;

  // Loads the line, but nobody waits for what comes. Right in a tight loop, of whose prefetch
  // instructions processors drop many; elsewhere a load holds up what follows it.
  void Fetch(size_t line) const {
    static_cast<void>(*reinterpret_cast<const volatile char*>(&lines_[line]));
  }
  size_t Home(uint64_t hash) const {
    return (static_cast<uint32_t>(static_cast<uint32_t>(hash) * mixer_) * num_lines_) >> 32;
  }
  size_t Next(size_t line) const { return line + 1 == num_lines_ ? 0 : line + 1; }
  // Room for a key that is not in the map.
  RowEntry* FreeSlot(uint64_t hash);
  static bool IsTooSmall(size_t rows, size_t capacity) { return 5 * rows > 4 * capacity; }
  void Grow(uint32_t purge_through);
  void Rehash(size_t num_lines, uint32_t purge_through);

  // Odd, and another in each map. Keys often come in the order of another map's lines, as from a
  // base; with the same homes they would fill this one from its beginning and run over each other.
  uint32_t mixer_;
  // 64 bits so that Home() does not overflow; always below 2^32.
  uint64_t num_lines_;
  size_t used_ = 0;
  uint64_t generation_ = 0;
  std::unique_ptr<Line[]> lines_;
};

template <typename Visit>
void RowMap::FindAll(const HashedKey* keys, size_t n, Visit visit) {
  std::array<const HashedKey*, kKeysAtATime> further;
  for (size_t begin = 0; begin < n; begin += kKeysAtATime) {
    const size_t end = std::min(n, begin + kKeysAtATime);
    for (size_t i = begin; i < end; ++i) Fetch(Home(keys[i].hash));
    size_t num_further = 0;
    for (size_t i = begin; i < end; ++i) {
      const size_t home = Home(keys[i].hash);
      RowEntry* const entry = lines_[home].Find(keys[i].key);
      if (entry == nullptr && lines_[home].IsFull()) {
        __builtin_prefetch(&lines_[Next(home)], 1);
        further[num_further++] = &keys[i];
      } else {
        visit(keys[i], entry);
      }
    }
    for (size_t i = 0; i < num_further; ++i) {
      visit(*further[i], Find(further[i]->key, further[i]->hash));
    }
  }
}

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_ROW_MAP_H_
