// SPDX-License-Identifier: Apache-2.0
// Which rows go into the increment and which into the differential, and how they change over.

#include <gtest/gtest.h>

#include "tests/cc/engine/test_group.h"

namespace adaptcp {
namespace {

class RowClassTest : public testing::Test {
 protected:
  RowClassTest() : group_(&files_) {}

  // Updates key 1 in n intervals, with a cut after each.
  void Heat(int n, const CutOptions& options) {
    for (; n > 0; --n) {
      group_.Insert({1}, ++version_);
      group_.Cut(options);
    }
  }
  // The keys that the latest cut holds in a segment of this kind.
  Keys In(SegmentKind kind) {
    Keys keys;
    for (const auto& [key, saved] : group_.Saved()) {
      if (saved.kind != SegmentKind::kBase) {
        EXPECT_EQ(saved.hot, saved.kind == SegmentKind::kDifferential);
      }
      if (saved.kind == kind) keys.push_back(key);
    }
    return keys;
  }
  Keys Increment() { return In(SegmentKind::kIncrement); }
  Keys Differential() { return In(SegmentKind::kDifferential); }

  MemoryFileSystem files_;
  TestGroup group_;
  uint32_t version_ = 0;
};

TEST_F(RowClassTest, AllColdRowsAreWrittenOnce) {
  group_.Insert({1, 2}, 1);
  group_.Cut(AllCold());
  EXPECT_EQ(Increment(), (Keys{1, 2}));
  group_.Insert({2}, 2);
  group_.Cut(AllCold());
  EXPECT_EQ(Increment(), (Keys{2}));
  EXPECT_EQ(group_.chain().newest_first.size(), 2u);
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {2, 2}}}));
}

TEST_F(RowClassTest, StandingRowsAreInEachDifferential) {
  group_.Insert({1, 2}, 1);
  group_.Cut(AllHot());
  group_.Insert({2, 3}, 2);
  group_.Cut(AllHot());
  group_.Cut(AllHot());
  EXPECT_EQ(Differential(), (Keys{1, 2, 3}));
  EXPECT_EQ(group_.counts().rows_hot, 3u);
  EXPECT_EQ(group_.chain().newest_first.size(), 1u);
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {2, 2}}, {3, {2, 2}}}));
}

TEST_F(RowClassTest, StandingRowIsSavedByAnUpdateToo) {
  group_.Insert({1}, 1);
  group_.Cut(AllHot());
  ASSERT_OK(group_.Begin(AllHot()));
  group_.Insert({1}, 2);
  ASSERT_OK(group_.Drain());
  group_.Commit();
  EXPECT_EQ(group_.counts().rows_saved_on_update, 1u);
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
}

TEST_F(RowClassTest, RowsUpdatedOftenAreHotAndOthersCold) {
  Heat(8, Threshold(0.5));
  group_.Insert({1, 2}, 50);
  group_.Cut(Threshold(0.5));
  EXPECT_EQ(Differential(), (Keys{1}));
  EXPECT_EQ(Increment(), (Keys{2}));
  EXPECT_EQ(group_.counts().rows_hot, 1u);
  EXPECT_EQ(group_.counts().rows_cold, 1u);
}

TEST_F(RowClassTest, HotRowThatFallsSilentGoesIntoOneIncrement) {
  Heat(8, Threshold(0.5));
  int silent = 0;
  do {
    group_.Cut(Threshold(0.5));
    ++silent;
  } while (!Differential().empty());
  EXPECT_EQ(Increment(), (Keys{1}));
  EXPECT_GT(silent, 2);
  EXPECT_LT(silent, 10);
  EXPECT_EQ(group_.Restored(), (Rows{{1, {8, 8}}}));
  group_.Cut(Threshold(0.5));
  EXPECT_TRUE(group_.Saved().empty());
  EXPECT_EQ(group_.Restored(), (Rows{{1, {8, 8}}}));
}

TEST_F(RowClassTest, RisingThresholdMovesStandingRowsIntoTheIncrement) {
  group_.Insert({1, 2}, 1);
  group_.Cut(AllHot());
  group_.Insert({3}, 2);
  ASSERT_OK(group_.Begin(AllCold()));
  group_.Insert({1}, 3);
  ASSERT_OK(group_.Drain());
  group_.Commit();
  EXPECT_EQ(Increment(), (Keys{1, 2, 3}));
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}, {3, {2, 2}}}));
}

TEST_F(RowClassTest, FallingThresholdMovesUpdatedRowsOnly) {
  group_.Insert({1, 2}, 1);
  group_.Cut(AllCold());
  group_.Insert({2}, 2);
  group_.Cut(AllHot());
  EXPECT_EQ(Differential(), (Keys{2}));
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {2, 2}}}));
}

TEST_F(RowClassTest, HysteresisKeepsTheClass) {
  // A young row that is updated in each of n intervals has a rate of n / (n + 4).
  Heat(5, Threshold(0.55, 0.5));
  EXPECT_EQ(Increment(), (Keys{1}));
  Heat(1, Threshold(0.55));
  EXPECT_EQ(Differential(), (Keys{1}));
  Heat(1, Threshold(0.7, 0.5));
  EXPECT_EQ(Differential(), (Keys{1}));
  Heat(1, Threshold(0.7));
  EXPECT_EQ(Increment(), (Keys{1}));
}

TEST_F(RowClassTest, BaseEndsTheStanding) {
  group_.Insert({1, 2}, 1);
  group_.Cut(AllHot());
  group_.Insert({2}, 2);
  group_.Cut(Base());
  EXPECT_EQ(In(SegmentKind::kBase), (Keys{1, 2}));
  group_.Insert({2}, 3);
  group_.Cut(AllHot());
  EXPECT_EQ(Differential(), (Keys{2}));
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {3, 3}}}));
}

TEST_F(RowClassTest, BaseHoldsEveryRowWithItsClass) {
  Heat(8, Threshold(0.5));
  group_.Insert({2}, 1);
  CutOptions base = Base();
  base.hot_threshold = 0.5;
  group_.Cut(base);
  EXPECT_EQ(group_.counts().rows_hot, 1u);
  EXPECT_EQ(group_.counts().rows_cold, 1u);
  EXPECT_TRUE(group_.Saved().at(1).hot);
  EXPECT_FALSE(group_.Saved().at(2).hot);
}

// Neither list is long when the drain starts; together the standing rows are too many for a list.
TEST_F(RowClassTest, StandingRowsMayOutgrowTheirListDuringADrain) {
  Keys all, first, second;
  for (uint32_t i = 0; i < 2000; ++i) all.push_back(OneStripeKey(i));
  first.assign(all.begin(), all.begin() + 200);
  second.assign(all.begin() + 200, all.begin() + 400);
  group_.Insert(all, 1);
  group_.Cut(Base());
  group_.Insert(first, 2);
  group_.Cut(AllHot());
  group_.Insert(second, 3);
  group_.Cut(AllHot());
  for (int i = 0; i < 2; ++i) {
    group_.Cut(AllHot());
    EXPECT_EQ(group_.counts().rows_hot, 400u);
    EXPECT_EQ(group_.Restored(), group_.rows());
  }
  // And become few again.
  group_.Cut(AllCold());
  group_.Insert(first, 4);
  group_.Cut(AllHot());
  group_.Cut(AllHot());
  EXPECT_EQ(group_.counts().rows_hot, 200u);
}

TEST_F(RowClassTest, DrainFollowsTheRowsToSaveNotTheTable) {
  Keys many;
  for (int64_t key = 100; key < 20100; ++key) many.push_back(key);
  group_.Insert(many, 1);
  group_.Cut(Base());
  group_.Insert({1, 2, 3}, 1);
  const uint64_t read = group_.table(0)->rows_read();
  ASSERT_OK(group_.Begin(Threshold(0.3)));
  EXPECT_EQ(group_.table(0)->rows_read(), read);  // begin reads nothing
  ASSERT_OK(group_.Drain());
  group_.Commit();
  EXPECT_EQ(group_.table(0)->rows_read(), read + 3);
  EXPECT_EQ(group_.counts().rows_drained, 3u);
}

TEST_F(RowClassTest, RatesAndIntervalsSurviveARestore) {
  Heat(5, Threshold(0.5));
  group_.Insert({2}, 1);
  group_.Cut(Threshold(0.5));
  TestGroup restored(&files_);
  ASSERT_OK(restored.RestoreFrom(group_.chain()));
  for (TestGroup* group : {&group_, &restored}) group->Cut(Base());
  EXPECT_EQ(restored.Saved(), group_.Saved());
  EXPECT_EQ(restored.Saved().at(1).last_updated, 5u);
  EXPECT_EQ(restored.Saved().at(2).last_updated, 6u);
}

}  // namespace
}  // namespace adaptcp
