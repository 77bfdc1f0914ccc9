// SPDX-License-Identifier: Apache-2.0
// The drain reads tables without keeping updates out: what they change meanwhile, it must drop.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "tests/cc/engine/test_group.h"
#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

class DrainTest : public testing::TestWithParam<CutOptions> {
 protected:
  DrainTest() : group_(&files_) {}

  // Begins a cut and starts its drain, which stops in the middle of its first read of a table.
  void StartDrain(size_t table = 0) {
    ASSERT_OK(group_.Begin(GetParam()));
    group_.table(table)->PauseNextRead();
    drain_ = std::thread([this] { EXPECT_OK(group_.Drain()); });
    group_.table(table)->AwaitPausedRead();
    paused_ = table;
  }
  void FinishCut() {
    group_.table(paused_)->ResumeRead();
    drain_.join();
    group_.Commit();
  }
  void ExpectNextCutHoldsTheTables() {
    group_.Cut(GetParam());
    EXPECT_EQ(group_.Restored(), group_.rows());
  }

  Watchdog watchdog_;
  MemoryFileSystem files_;
  TestGroup group_;
  std::thread drain_;
  size_t paused_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Policies, DrainTest,
                         testing::Values(AllCold(), AllHot(), Threshold(0.3), Base()));

TEST_P(DrainTest, RowChangedWhileItIsReadKeepsItsOldValue) {
  group_.Insert({1, 2}, 1);
  StartDrain();
  group_.Insert({1, 2}, 2);
  FinishCut();
  EXPECT_EQ(group_.counts().rows_saved_on_update, 2u);
  EXPECT_EQ(group_.counts().rows_drained, 0u);
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}}));
  ExpectNextCutHoldsTheTables();
}

TEST_P(DrainTest, RowChangedBetweenTwoTablesOfItsReadKeepsItsOldValue) {
  group_.Insert({1, 2}, 1);
  StartDrain(/*table=*/1);
  group_.Insert({1}, 2);
  FinishCut();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}}));
  ExpectNextCutHoldsTheTables();
}

TEST_P(DrainTest, RowRemovedWhileItIsReadIsInTheCut) {
  group_.Insert({1, 2}, 1);
  StartDrain();
  group_.Remove({1, 2});
  FinishCut();
  EXPECT_EQ(group_.counts().tombstones, 0u);
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}}));
  ExpectNextCutHoldsTheTables();
}

TEST_P(DrainTest, RowTakenBackWhileItsAbsenceIsReadIsNotInTheCut) {
  group_.Insert({1, 2}, 1);
  group_.Cut(GetParam());
  group_.Remove({1, 2});
  StartDrain();
  group_.Insert({1, 2}, 2);
  FinishCut();
  EXPECT_EQ(group_.Restored(), Rows{});
  ExpectNextCutHoldsTheTables();
}

TEST_P(DrainTest, OnlyTheChangedRowsOfABatchAreDropped) {
  Keys keys, changed;
  for (uint32_t i = 0; i < 20; ++i) keys.push_back(OneStripeKey(i));
  for (uint32_t i = 3; i < 20; i += 4) changed.push_back(OneStripeKey(i));
  group_.Insert(keys, 1);
  const Rows expected = group_.rows();
  StartDrain();
  group_.Insert(changed, 2);
  FinishCut();
  EXPECT_EQ(group_.counts().rows_saved_on_update, changed.size());
  EXPECT_EQ(group_.counts().rows_drained, keys.size() - changed.size());
  EXPECT_EQ(group_.Restored(), expected);
  ExpectNextCutHoldsTheTables();
}

TEST_P(DrainTest, TrackerMayGrowWhileRowsAreRead) {
  Keys old, born;
  for (uint32_t i = 0; i < 300; ++i) old.push_back(OneStripeKey(i));
  for (uint32_t i = 300; i < 2000; ++i) born.push_back(OneStripeKey(i));
  group_.Insert(old, 1);
  const Rows expected = group_.rows();
  StartDrain();
  group_.Insert(born, 2);
  FinishCut();
  EXPECT_EQ(group_.Restored(), expected);
  EXPECT_EQ(group_.counts().rows_drained, old.size());
  ExpectNextCutHoldsTheTables();
}

TEST_P(DrainTest, RowsAboutToBeUpdatedAreSavedFirst) {
  Keys keys;
  for (int64_t key = 0; key < 1000; ++key) keys.push_back(key);
  group_.Insert(keys, 1);
  const Rows expected = group_.rows();
  StartDrain();
  // Keys of all stripes, one that is in no table, duplicates.
  const Keys urgent = {999, 5, 333, 12345, 5, 77};
  group_.group()->WillUpdate(group_.Batch(urgent));
  FinishCut();
  EXPECT_EQ(group_.Restored(), expected);
  Keys first = group_.SavedInOrder();
  // A batch of one stripe was being read already.
  first.resize(40);
  for (int64_t key : {999, 5, 333, 77}) {
    EXPECT_EQ(std::count(first.begin(), first.end(), key), 1) << key;
  }
}

TEST_P(DrainTest, RowsAnnouncedBeforeTheDrainAreSavedFirst) {
  Keys keys;
  for (int64_t key = 0; key < 1000; ++key) keys.push_back(key);
  group_.Insert(keys, 1);
  EXPECT_FALSE(group_.group()->IsSaving());
  ASSERT_OK(group_.Begin(GetParam()));
  EXPECT_TRUE(group_.group()->IsSaving());
  // Of many hints the newest count.
  for (int64_t key = 100; key < 200; ++key) group_.group()->WillUpdate(group_.Batch({key}));
  ASSERT_OK(group_.Drain());
  EXPECT_FALSE(group_.group()->IsSaving());
  group_.Commit();
  EXPECT_EQ(group_.SavedInOrder()[0] / 10, 19);
  EXPECT_EQ(group_.Restored(), group_.rows());
}

TEST_P(DrainTest, HintsWithoutACutAreForgotten) {
  group_.Insert({1, 2}, 1);
  group_.group()->WillUpdate(group_.Batch({1}));
  group_.Cut(GetParam());
  group_.group()->WillUpdate(group_.Batch({2}));
  ExpectNextCutHoldsTheTables();
}

TEST_P(DrainTest, FailedReadFailsTheCut) {
  group_.Insert({1, 2}, 1);
  ASSERT_OK(group_.Begin(GetParam()));
  group_.table(1)->FailNthRead(1, Internal("no memory"));
  ExpectFailure(group_.Drain(), StatusCode::kInternal, "no memory");
  group_.Fail();
  ExpectNextCutHoldsTheTables();
}

// Many rows of one stripe: its lists give way to walks over the stripe, or come back.
TEST_P(DrainTest, ListsOfAStripeMayOverflow) {
  Keys all, few;
  for (uint32_t i = 0; i < 2000; ++i) all.push_back(OneStripeKey(i));
  for (uint32_t i = 0; i < 10; ++i) few.push_back(OneStripeKey(i * 100));
  uint32_t version = 0;
  for (const Keys* keys : {&all, &few, &few, &all, &few}) {
    group_.Insert(*keys, ++version);
    const Rows expected = group_.rows();
    ASSERT_OK(group_.Begin(GetParam()));
    group_.Insert(few, ++version);
    ASSERT_OK(group_.Drain());
    group_.Insert({OneStripeKey(7)}, ++version);
    group_.Commit();
    EXPECT_EQ(group_.Restored(), expected);
  }
  group_.Remove(all);
  ExpectNextCutHoldsTheTables();
  ExpectNextCutHoldsTheTables();
}

TEST_P(DrainTest, RowsOfAFailedCutAreInTheNextHoweverMany) {
  Keys all;
  for (uint32_t i = 0; i < 2000; ++i) all.push_back(OneStripeKey(i));
  group_.Insert(all, 1);
  group_.Remove({OneStripeKey(5)});
  ASSERT_OK(group_.Begin(GetParam()));
  group_.Insert({OneStripeKey(6), OneStripeKey(7)}, 2);
  files_.FailNth(MemoryFileSystem::kSync, 1, Internal("lost"));
  EXPECT_FALSE(group_.Drain().ok());
  group_.Fail();
  ExpectNextCutHoldsTheTables();
}

TEST_P(DrainTest, CountsAddUp) {
  group_.Insert({1, 2, 3, 4, 5}, 1);
  group_.Remove({5});
  ASSERT_OK(group_.Begin(GetParam()));
  group_.Insert({1, 2, 5, 6}, 2);
  ASSERT_OK(group_.Drain());
  group_.Commit();
  const CutCounts& counts = group_.counts();
  EXPECT_EQ(counts.rows_hot + counts.rows_cold, 4u);
  EXPECT_EQ(counts.rows_saved_on_update, 2u);
  EXPECT_EQ(counts.rows_drained, 2u);
  EXPECT_EQ(counts.tombstones, GetParam().base ? 0u : 1u);
  uint64_t rows = 0, tombstones = 0;
  for (const WrittenSegment& segment : group_.segments()) {
    rows += segment.summary.rows;
    tombstones += segment.summary.tombstones;
    EXPECT_EQ(segment.summary.bytes,
              files_.Contents(Concat(group_.directory(), "/", segment.file_name)).size());
  }
  EXPECT_EQ(rows, 4u);
  EXPECT_EQ(tombstones, counts.tombstones);
}

}  // namespace
}  // namespace adaptcp
