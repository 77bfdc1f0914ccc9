// SPDX-License-Identifier: Apache-2.0
// Which updates the log keeps, and that a cut takes rows from them only when they say what the
// tables hold.

#include "custom_ops/engine/update_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cc/engine/test_group.h"

namespace adaptcp {
namespace {

constexpr size_t kValueBytes = 8;

// Updates of a log over two tables; each insert is known by its first key.
class UpdateLogTest : public testing::Test {
 protected:
  static KeyBatch Batch(int64_t key, size_t n = 1) {
    auto keys = std::make_shared<Keys>(n);
    std::iota(keys->begin(), keys->end(), key);
    return KeyBatch{keys->data(), n, keys};
  }
  static RowValues Values(size_t n = 1) {
    auto values = std::make_shared<const std::string>(n * kValueBytes, 'v');
    return RowValues{values->data(), values->size(), values};
  }
  // One table's part of an insert.
  void Insert(const KeyBatch& batch, size_t table, bool applied = true) {
    log_.Leave(log_.EnterInsert(batch, table, 2, Values(batch.size)), applied);
  }
  void InsertBoth(int64_t key, size_t n = 1) {
    const KeyBatch batch = Batch(key, n);
    Insert(batch, 0);
    Insert(batch, 1);
  }
  Keys Taken() {
    Keys keys;
    TakenInserts taken = log_.Take();
    while (const LoggedInsert* insert = taken.Next()) {
      EXPECT_EQ(insert->tables.size(), 2u);
      for (const RowValues& table : insert->tables) {
        EXPECT_EQ(table.bytes, insert->batch.size * kValueBytes);
      }
      keys.push_back(insert->batch.keys[0]);
    }
    std::reverse(keys.begin(), keys.end());
    return keys;
  }

  // Four inserts of ten rows.
  UpdateLogBudget budget_{4 * 10 * (8 + 2 * kValueBytes)};
  UpdateLog log_{&budget_};
};

TEST_F(UpdateLogTest, KeepsInsertsThatReachedAllTables) {
  InsertBoth(1);
  InsertBoth(2);
  EXPECT_EQ(Taken(), (Keys{1, 2}));
  EXPECT_EQ(Taken(), Keys());
}

TEST_F(UpdateLogTest, TablesOfOneInsertMayOverlapInAnyOrder) {
  const KeyBatch batch = Batch(1);
  const uint64_t second = log_.EnterInsert(batch, 1, 2, Values());
  const uint64_t first = log_.EnterInsert(batch, 0, 2, Values());
  log_.Leave(second, true);
  log_.Leave(first, true);
  EXPECT_EQ(Taken(), (Keys{1}));
}

TEST_F(UpdateLogTest, EqualKeysInAnotherTensorAreTheSameInsert) {
  Insert(Batch(1), 0);
  Insert(Batch(1), 1);
  EXPECT_EQ(Taken(), (Keys{1}));
}

TEST_F(UpdateLogTest, InsertIntoOneTableForgetsWhatCameBefore) {
  InsertBoth(1);
  Insert(Batch(2), 0);
  InsertBoth(3);
  EXPECT_EQ(Taken(), (Keys{3}));
}

TEST_F(UpdateLogTest, SameKeysTwiceIntoOneTableAreTwoInserts) {
  const KeyBatch batch = Batch(1);
  Insert(batch, 0);
  Insert(batch, 0);
  Insert(batch, 1);
  EXPECT_EQ(Taken(), (Keys{1}));
}

TEST_F(UpdateLogTest, UnfinishedInsertIsNotTaken) {
  InsertBoth(1);
  Insert(Batch(2), 0);
  EXPECT_EQ(Taken(), Keys());
}

TEST_F(UpdateLogTest, FailedInsertForgetsWhatCameBefore) {
  InsertBoth(1);
  const KeyBatch batch = Batch(2);
  Insert(batch, 0);
  Insert(batch, 1, /*applied=*/false);
  InsertBoth(3);
  EXPECT_EQ(Taken(), (Keys{3}));
}

TEST_F(UpdateLogTest, OtherUpdateForgetsWhatCameBefore) {
  InsertBoth(1);
  log_.Leave(log_.EnterOther(), true);
  InsertBoth(2);
  EXPECT_EQ(Taken(), (Keys{2}));
}

TEST_F(UpdateLogTest, InsertsThatOverlapAreNotKept) {
  InsertBoth(1);
  const KeyBatch a = Batch(2), b = Batch(3);
  const uint64_t a0 = log_.EnterInsert(a, 0, 2, Values());
  const uint64_t b0 = log_.EnterInsert(b, 0, 2, Values());
  log_.Leave(a0, true);
  const uint64_t b1 = log_.EnterInsert(b, 1, 2, Values());
  const uint64_t a1 = log_.EnterInsert(a, 1, 2, Values());
  for (uint64_t entered : {b0, b1, a1}) log_.Leave(entered, true);
  EXPECT_EQ(Taken(), Keys());
  InsertBoth(4);
  EXPECT_EQ(Taken(), (Keys{4}));
}

TEST_F(UpdateLogTest, InsertThatOverlapsAnotherUpdateIsNotKept) {
  const uint64_t other = log_.EnterOther();
  InsertBoth(1);
  log_.Leave(other, true);
  EXPECT_EQ(Taken(), Keys());
}

TEST_F(UpdateLogTest, OtherUpdateDuringAnInsertIsNotLost) {
  const KeyBatch batch = Batch(1);
  const uint64_t first = log_.EnterInsert(batch, 0, 2, Values());
  log_.Leave(log_.EnterOther(), true);
  log_.Leave(first, true);
  Insert(batch, 1);
  EXPECT_EQ(Taken(), Keys());
}

TEST_F(UpdateLogTest, OldestGoWhenMemoryIsUsedUp) {
  for (int64_t key = 1; key <= 6; ++key) InsertBoth(100 * key, 10);
  EXPECT_EQ(Taken(), (Keys{300, 400, 500, 600}));
}

TEST_F(UpdateLogTest, InsertThatDoesNotFitForgetsWhatCameBefore) {
  InsertBoth(1);
  InsertBoth(100, 41);
  InsertBoth(2);
  EXPECT_EQ(Taken(), (Keys{2}));
}

TEST_F(UpdateLogTest, LogsShareTheMemory) {
  UpdateLog other(&budget_);
  for (int64_t key = 1; key <= 6; ++key) InsertBoth(100 * key, 10);
  EXPECT_EQ(Taken(), (Keys{500, 600}));
}

TEST_F(UpdateLogTest, WhatACutHoldsCountsUntilItIsUsed) {
  for (int64_t key = 1; key <= 3; ++key) InsertBoth(100 * key, 10);
  {
    TakenInserts held = log_.Take();
    for (int64_t key = 4; key <= 6; ++key) InsertBoth(100 * key, 10);
    EXPECT_EQ(Taken(), (Keys{600}));
    ASSERT_EQ(held.Next()->batch.keys[0], 300);
    ASSERT_EQ(held.Next()->batch.keys[0], 200);
    for (int64_t key = 4; key <= 6; ++key) InsertBoth(100 * key, 10);
    EXPECT_EQ(Taken(), (Keys{500, 600}));
  }
  for (int64_t key = 1; key <= 6; ++key) InsertBoth(100 * key, 10);
  EXPECT_EQ(Taken(), (Keys{300, 400, 500, 600}));
}

TEST_F(UpdateLogTest, InsertIsAliveUntilTheNextIsAskedFor) {
  auto owner = std::make_shared<const std::string>(kValueBytes, 'v');
  const std::weak_ptr<const std::string> alive = owner;
  const KeyBatch batch = Batch(1);
  for (size_t t = 0; t < 2; ++t) {
    const RowValues values{owner->data(), owner->size(), owner};
    log_.Leave(log_.EnterInsert(batch, t, 2, values), true);
  }
  owner.reset();
  TakenInserts taken = log_.Take();
  TakenInserts moved = std::move(taken);
  ASSERT_NE(moved.Next(), nullptr);
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(moved.Next(), nullptr);
  EXPECT_TRUE(alive.expired());
}

TEST_F(UpdateLogTest, DisabledLogKeepsNothing) {
  InsertBoth(1);
  const KeyBatch batch = Batch(2);
  const uint64_t entered = log_.EnterInsert(batch, 0, 2, Values());
  log_.Disable();
  log_.Leave(entered, true);
  InsertBoth(3);
  EXPECT_EQ(Taken(), Keys());
}

// Cuts of a group of two tables.
class LoggedCutTest : public testing::Test {
 protected:
  LoggedCutTest() : group_(&files_) {}

  void Insert(const Keys& keys, uint32_t version) {
    const KeyBatch batch = group_.Batch(keys);
    for (size_t t = 0; t < 2; ++t) EXPECT_OK(group_.LoggedInsert(t, batch, keys, version));
  }
  uint64_t RowsRead() { return group_.table(0)->rows_read() + group_.table(1)->rows_read(); }
  void ExpectExact() { EXPECT_EQ(group_.Restored(), group_.rows()); }

  MemoryFileSystem files_;
  TestGroup group_;
};

TEST_F(LoggedCutTest, ReadsNoTable) {
  Insert({1, 2, 3}, 1);
  Insert({2, 3, 4}, 2);
  Insert({3, 5}, 3);
  group_.Cut(AllCold());
  EXPECT_EQ(RowsRead(), 0u);
  EXPECT_EQ(group_.counts().rows_cold, 5u);
  ExpectExact();
}

TEST_F(LoggedCutTest, NextCutTakesLaterInsertsOnly) {
  Insert({1, 2}, 1);
  group_.Cut(Base());
  Insert({2}, 2);
  group_.Cut(AllCold());
  EXPECT_EQ(RowsRead(), 0u);
  EXPECT_EQ(group_.counts().rows_cold, 1u);
  ExpectExact();
}

TEST_F(LoggedCutTest, ReadsRowsThatAreNotLogged) {
  group_.Insert({1, 2}, 1);
  Insert({2, 3}, 2);
  group_.Cut(AllCold());
  EXPECT_EQ(RowsRead(), 2u);
  ExpectExact();
}

TEST_F(LoggedCutTest, StandingRowsAreReadWhenNotUpdatedAgain) {
  Insert({1, 2}, 1);
  group_.Cut(AllHot());
  Insert({2}, 2);
  group_.Cut(AllHot());
  EXPECT_EQ(RowsRead(), 2u);
  EXPECT_EQ(group_.counts().rows_hot, 2u);
  ExpectExact();
}

TEST_F(LoggedCutTest, UpdateDuringTheDrainDoesNotReachTheCut) {
  Insert({1, 2}, 1);
  ASSERT_OK(group_.Begin(AllCold()));
  Insert({2}, 2);
  ASSERT_OK(group_.Drain());
  group_.Commit();
  const Rows restored = group_.Restored();
  EXPECT_EQ(restored.at(1), Row(2, 1));
  EXPECT_EQ(restored.at(2), Row(2, 1));
  group_.Cut(AllCold());
  ExpectExact();
}

TEST_F(LoggedCutTest, FailedCutsRowsAreInTheNext) {
  Insert({1, 2}, 1);
  ASSERT_OK(group_.Begin(AllCold()));
  group_.Fail();
  Insert({2}, 2);
  group_.Cut(AllCold());
  EXPECT_EQ(RowsRead(), 2u);
  ExpectExact();
}

TEST_F(LoggedCutTest, RemovedRowIsATombstone) {
  Insert({1, 2}, 1);
  group_.Cut(Base());
  Insert({1, 2}, 2);
  group_.Remove({1});
  group_.Cut(AllCold());
  EXPECT_EQ(group_.counts().tombstones, 1u);
  ExpectExact();
}

TEST_F(LoggedCutTest, AccumulatedRowIsRead) {
  Insert({1, 2}, 1);
  ASSERT_OK(group_.group()->MarkUpdated(group_.Batch({1})));
  Insert({1}, 2);
  group_.Accumulate(0, {1}, 3);
  group_.Cut(AllCold());
  ASSERT_OK(group_.group()->MarkUpdated(group_.Batch({1})));
  ExpectExact();
}

TEST_F(LoggedCutTest, ReplacedRowsAreRead) {
  Insert({1, 2}, 1);
  group_.Replace({2, 3}, 2);
  group_.Cut(Base());
  ExpectExact();
}

// The tables may have kept either of the two values.
TEST_F(LoggedCutTest, KeyThatStandsTwiceIsRead) {
  for (const uint32_t kept : {5u, 6u}) {
    const Keys keys = {1, 2, 1};
    const KeyBatch batch = group_.Batch(keys);
    for (size_t t = 0; t < 2; ++t) {
      auto values = std::make_shared<std::string>();
      const uint32_t row_bytes = group_.table(t)->spec().row_bytes;
      for (const auto& [key, version] :
           std::vector<std::pair<int64_t, uint32_t>>{{1, 5}, {2, 7}, {1, 6}}) {
        *values += ValueOf(key, t, version, row_bytes);
      }
      ASSERT_OK(group_.group()->Insert(batch, t, RowValues{values->data(), values->size(), values},
                                       [&]() -> Status {
                                         EXPECT_OK(group_.Write(t, {1}, kept));
                                         return group_.Write(t, {2}, 7);
                                       }));
    }
    group_.Cut(AllCold());
    ExpectExact();
  }
}

TEST_F(LoggedCutTest, MoreRowsThanABlockHolds) {
  Keys keys(30000);
  std::iota(keys.begin(), keys.end(), 0);
  Insert(keys, 1);
  Keys one_stripe;
  for (uint32_t i = 0; i < 2000; ++i) one_stripe.push_back(OneStripeKey(i));
  Insert(one_stripe, 2);
  group_.Cut(AllCold());
  EXPECT_EQ(RowsRead(), 0u);
  ExpectExact();
}

TEST(LoggedCutOfWideRowsTest, RunThatDoesNotFitABlockIsRead) {
  MemoryFileSystem files;
  TestGroupOptions options;
  options.dim = 4000;  // 64 rows a block
  TestGroup group(&files, options);
  Keys keys;
  for (uint32_t i = 0; i < 100; ++i) keys.push_back(OneStripeKey(i));
  const KeyBatch batch = group.Batch(keys);
  for (size_t t = 0; t < 2; ++t) EXPECT_OK(group.LoggedInsert(t, batch, keys, 1));
  group.Cut(AllCold());
  EXPECT_EQ(group.Restored(), group.rows());
}

TEST_F(LoggedCutTest, TableAttachedLaterHasNoLoggedRows) {
  Insert({1, 2}, 1);
  TableSpec spec;
  auto table = std::make_unique<MemoryTable>(MakeTable("late", "float32", 2));
  ASSERT_OK(group_.group()->Attach(2, table.get(), std::move(table)));
  ASSERT_OK(group_.Begin(AllCold()));
  ASSERT_OK(group_.Drain());
  EXPECT_EQ(group_.counts().rows_cold, 2u);
  EXPECT_EQ(RowsRead(), 4u);
}

}  // namespace
}  // namespace adaptcp
