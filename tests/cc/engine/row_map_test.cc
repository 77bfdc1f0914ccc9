// SPDX-License-Identifier: Apache-2.0
// The map of rows: against std::map, through growth, and what growth forgets.

#include "custom_ops/engine/row_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace adaptcp {
namespace {

class RowMapTest : public testing::Test {
 protected:
  RowEntry* Find(int64_t key) { return map_.Find(key, HashKey(key)); }
  // Adds a row that must be new.
  RowEntry* Insert(int64_t key, uint32_t purge_through = 0) {
    bool inserted;
    RowEntry* row = map_.FindOrInsert(key, HashKey(key), purge_through, &inserted);
    EXPECT_TRUE(inserted) << key;
    return row;
  }
  void InsertRange(int64_t begin, int64_t end, uint32_t purge_through = 0) {
    for (int64_t key = begin; key < end; ++key) Insert(key, purge_through);
  }
  void ExpectConsistent() {
    size_t occupied = 0;
    for (size_t i = 0; i < map_.capacity(); ++i) {
      if (!map_.slot(i)->occupied) continue;
      ++occupied;
      EXPECT_EQ(Find(map_.slot(i)->key), map_.slot(i));
    }
    EXPECT_EQ(map_.used(), occupied);
  }

  RowMap map_;
};

TEST_F(RowMapTest, NewRowIsZeroButForItsKey) {
  EXPECT_EQ(Find(5), nullptr);
  const RowEntry* row = Insert(5);
  EXPECT_EQ(row->key, 5);
  EXPECT_EQ(row->last_updated + row->saved + row->rate + row->history + row->removed + row->listed +
                row->standing + row->hot,
            0u);
  EXPECT_EQ(Find(5), row);
  EXPECT_EQ(map_.used(), 1u);
}

// Absent keys, keys that stand twice and, since the visit inserts, rows that move meanwhile.
TEST_F(RowMapTest, FindAllVisitsEveryKeyOnce) {
  std::mt19937_64 random(2);
  std::map<int64_t, uint32_t> expected;
  for (int batch = 0; batch < 200; ++batch) {
    std::vector<HashedKey> keys;
    for (uint32_t i = 0; i < 1 + random() % 400; ++i) {
      const int64_t key = static_cast<int64_t>(random() % 5000);
      keys.push_back({key, static_cast<uint32_t>(HashKey(key)), i});
    }
    std::vector<int> visits(keys.size());
    map_.FindAll(keys.data(), keys.size(), [&](const HashedKey& key, RowEntry* row) {
      ++visits[key.index];
      EXPECT_EQ(row == nullptr, expected.count(key.key) == 0);
      if (row == nullptr) row = Insert(key.key);
      EXPECT_EQ(row->key, key.key);
      EXPECT_EQ(row->last_updated, expected[key.key]);
      row->last_updated = ++expected[key.key];
    });
    EXPECT_EQ(visits, std::vector<int>(keys.size(), 1));
  }
  EXPECT_EQ(map_.used(), expected.size());
  ExpectConsistent();
}

TEST_F(RowMapTest, BehavesLikeAMapThroughGrowth) {
  std::mt19937_64 random(1);
  std::map<int64_t, uint32_t> expected;
  for (uint32_t i = 1; i < 50000; ++i) {
    const int64_t key = static_cast<int64_t>(random() % 20000) - 10000;
    bool inserted;
    RowEntry* row = map_.FindOrInsert(key, HashKey(key), 0, &inserted);
    EXPECT_EQ(inserted, expected.count(key) == 0);
    row->last_updated = i;
    expected[key] = i;
  }
  EXPECT_EQ(map_.used(), expected.size());
  for (int64_t key = -10001; key <= 10001; ++key) {
    const RowEntry* row = Find(key);
    ASSERT_EQ(row != nullptr, expected.count(key) > 0) << key;
    if (row != nullptr) {
      EXPECT_EQ(row->last_updated, expected[key]);
    }
  }
  ExpectConsistent();
}

TEST_F(RowMapTest, GenerationTellsWhenRowsMove) {
  uint64_t generation = map_.generation();
  const RowEntry* first = Insert(1);
  for (int64_t key = 2; key < 5000; ++key) {
    Insert(key);
    if (map_.generation() == generation) {
      EXPECT_EQ(Find(1), first);
    }
    generation = map_.generation();
    first = Find(1);
  }
  EXPECT_GT(generation, 5u);
}

TEST_F(RowMapTest, MemoryIsTwentyToTwentyEightBytesARow) {
  for (int64_t key = 0; key < 300000; ++key) {
    Insert(key);
    if (key < 2000) continue;
    const double bytes = static_cast<double>(map_.capacity() * sizeof(RowEntry)) / map_.used();
    ASSERT_GE(bytes, 20.0 - 0.1);
    ASSERT_LE(bytes, 28.1);
  }
}

TEST_F(RowMapTest, ReservedRoomIsEnoughAndNotTooMuch) {
  InsertRange(0, 100);
  map_.Reserve(100'000);
  ExpectConsistent();
  EXPECT_EQ(map_.used(), 100u);
  const uint64_t generation = map_.generation();
  InsertRange(100, 100'000);
  EXPECT_EQ(map_.generation(), generation);
  EXPECT_LE(map_.capacity() * sizeof(RowEntry), 28u * 100'000);
  map_.Reserve(1000);
  EXPECT_EQ(map_.generation(), generation);
  ExpectConsistent();
}

TEST_F(RowMapTest, RowsOfAnotherMapInItsOrderSpreadEvenly) {
  RowMap other;
  bool inserted;
  for (int64_t key = 0; key < 50'000; ++key) other.FindOrInsert(key, HashKey(key), 0, &inserted);
  // A map with the same homes would be full at its beginning and empty elsewhere, at every size.
  size_t next = 0;
  for (size_t rows : {1000, 5000, 20'000, 50'000}) {
    for (; map_.used() < rows; ++next) {
      if (other.slot(next)->occupied) Insert(other.slot(next)->key);
    }
    constexpr size_t kParts = 8;
    std::vector<size_t> occupied(kParts);
    for (size_t i = 0; i < map_.capacity(); ++i) {
      occupied[i * kParts / map_.capacity()] += map_.slot(i)->occupied;
    }
    for (size_t part : occupied) {
      EXPECT_NEAR(static_cast<double>(part), static_cast<double>(rows) / kParts,
                  0.3 * rows / kParts);
    }
  }
}

TEST_F(RowMapTest, GrowthForgetsRowsWhoseTombstoneIsDurable) {
  for (int64_t key = 0; key < 1000; ++key) {
    RowEntry* row = Insert(key);
    row->last_updated = 1 + key % 4;
    row->removed = key % 2;
    row->listed = key % 5 == 0;
  }
  const uint64_t generation = map_.generation();
  int64_t next = 1000;
  while (map_.generation() == generation) Insert(next++, /*purge_through=*/2);
  for (int64_t key = 0; key < 1000; ++key) {
    const bool forgotten = key % 2 == 1 && 1 + key % 4 <= 2 && key % 5 != 0;
    EXPECT_EQ(Find(key) == nullptr, forgotten) << key;
  }
  ExpectConsistent();
}

TEST_F(RowMapTest, RemovedRowsDoNotMakeItGrowForEver) {
  for (int64_t key = 0; key < 200000; ++key) {
    RowEntry* row = Insert(key, /*purge_through=*/1);
    row->removed = 1;
    row->last_updated = 1;
  }
  EXPECT_LE(map_.capacity(), 64u);
}

TEST_F(RowMapTest, RowsWithEqualHomesAreAllFound) {
  // Keys whose hashes agree in the bits that choose a slot of a small map.
  Insert(0);
  int found = 1;
  for (int64_t key = 1; found < 12; ++key) {
    if ((static_cast<uint32_t>(HashKey(key)) >> 26) != (static_cast<uint32_t>(HashKey(0)) >> 26)) {
      continue;
    }
    Insert(key);
    ++found;
  }
  EXPECT_EQ(map_.used(), 12u);
  ExpectConsistent();
}

TEST_F(RowMapTest, ProbesWrapAroundTheEnd) {
  // Homes in the last sixteenth.
  int found = 0;
  for (int64_t key = 0; found < 10; ++key) {
    if ((static_cast<uint32_t>(HashKey(key)) >> 28) != 15) continue;
    Insert(key);
    ++found;
  }
  EXPECT_TRUE(map_.slot(0)->occupied);
  ExpectConsistent();
}

}  // namespace
}  // namespace adaptcp
