// SPDX-License-Identifier: Apache-2.0
// Removed rows: what a cut says of them, and when the tracker may forget them.

#include <gtest/gtest.h>

#include "tests/cc/engine/test_group.h"

namespace adaptcp {
namespace {

class TombstoneTest : public testing::Test {
 protected:
  TombstoneTest() : group_(&files_) {}

  // The keys whose tombstones are in the segments of the latest cut, all in an increment.
  Keys Tombstones() {
    Keys keys;
    for (const auto& [key, saved] : group_.Saved()) {
      if (!saved.tombstone) continue;
      EXPECT_EQ(saved.kind, SegmentKind::kIncrement);
      keys.push_back(key);
    }
    return keys;
  }

  MemoryFileSystem files_;
  TestGroup group_;
};

TEST_F(TombstoneTest, RemovedRowLeavesATombstone) {
  group_.Insert({1, 2}, 1);
  group_.Cut(AllCold());
  group_.Remove({1});
  group_.Cut(AllCold());
  EXPECT_EQ(Tombstones(), (Keys{1}));
  EXPECT_EQ(group_.counts().tombstones, 1u);
  EXPECT_EQ(group_.Restored(), (Rows{{2, {1, 1}}}));
}

TEST_F(TombstoneTest, TombstoneOfAHotRowGoesIntoTheIncrement) {
  group_.Insert({1, 2}, 1);
  group_.Cut(AllHot());
  group_.Remove({1});
  group_.Cut(AllHot());
  EXPECT_EQ(Tombstones(), (Keys{1}));
  EXPECT_EQ(group_.Restored(), (Rows{{2, {1, 1}}}));
  // The differential has ceased to hold the row, and the tombstone is written once.
  group_.Cut(AllHot());
  EXPECT_EQ(Tombstones(), (Keys{}));
  EXPECT_EQ(group_.Saved().size(), 1u);
  EXPECT_EQ(group_.Restored(), (Rows{{2, {1, 1}}}));
}

TEST_F(TombstoneTest, InsertInTheSameIntervalTakesItBack) {
  for (const CutOptions& options : {AllCold(), AllHot()}) {
    group_.Insert({1}, 1);
    group_.Cut(options);
    group_.Remove({1});
    group_.Insert({1}, 2);
    group_.Cut(options);
    EXPECT_EQ(Tombstones(), (Keys{}));
    EXPECT_EQ(group_.Restored(), (Rows{{1, {2, 2}}}));
  }
}

TEST_F(TombstoneTest, InsertAfterTheCutLeavesTheTombstoneInIt) {
  for (const CutOptions& options : {AllCold(), AllHot()}) {
    group_.Insert({1}, 1);
    group_.Cut(options);
    group_.Remove({1});
    ASSERT_OK(group_.Begin(options));
    group_.Insert({1}, 2);
    ASSERT_OK(group_.Drain());
    group_.Commit();
    EXPECT_EQ(Tombstones(), (Keys{1}));
    EXPECT_EQ(group_.Restored(), Rows{});
    group_.Cut(options);
    EXPECT_EQ(group_.Restored(), (Rows{{1, {2, 2}}}));
  }
}

TEST_F(TombstoneTest, RemovalFromEachTableInTurnLeavesOne) {
  group_.Insert({1}, 1);
  group_.Cut(AllCold());
  group_.RemoveFrom(0, {1});
  ASSERT_OK(group_.Begin(AllCold()));
  group_.RemoveFrom(1, {1});
  ASSERT_OK(group_.Drain());
  group_.Commit();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {kAbsent, 1}}}));
  group_.Cut(AllCold());
  EXPECT_EQ(Tombstones(), (Keys{1}));
  EXPECT_EQ(group_.Restored(), Rows{});
}

TEST_F(TombstoneTest, RemovalOfAnUnknownKeyHarmsNothing) {
  group_.Insert({1}, 1);
  group_.Remove({2});
  group_.Cut(AllCold());
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
  EXPECT_EQ(group_.group()->Stats().rows, 1u);
}

TEST_F(TombstoneTest, BaseHoldsNoTombstones) {
  group_.Insert({1, 2, 3}, 1);
  group_.Cut(AllHot());
  group_.Remove({1});
  group_.Cut(AllHot());
  group_.Remove({2});
  group_.Cut(Base());
  EXPECT_EQ(Tombstones(), (Keys{}));
  EXPECT_EQ(group_.counts().tombstones, 0u);
  EXPECT_EQ(group_.Restored(), (Rows{{3, {1, 1}}}));
  group_.Cut(AllHot());
  EXPECT_EQ(group_.Restored(), (Rows{{3, {1, 1}}}));
}

TEST_F(TombstoneTest, RestoredTombstoneHidesOlderRowsAndCanBeTakenBack) {
  group_.Insert({1, 2}, 1);
  group_.Cut(AllCold());
  group_.Remove({1});
  group_.Cut(AllCold());
  TestGroup restored(&files_);
  ASSERT_OK(restored.RestoreFrom(group_.chain()));
  EXPECT_EQ(restored.group()->Stats().rows, 1u);
  restored.Insert({1}, 2);
  restored.Cut(AllCold());
  EXPECT_EQ(restored.Restored(), (Rows{{1, {2, 2}}, {2, {1, 1}}}));
}

TEST_F(TombstoneTest, RestoreRemembersThemUntilAllSegmentsAreRead) {
  Keys keys, others;
  for (int64_t key = 0; key < 1000; ++key) keys.push_back(key);
  for (int64_t key = 1000; key < 20000; ++key) others.push_back(key);
  group_.Insert(keys, 1);
  group_.Insert(others, 1);
  group_.Cut(AllCold());
  group_.Remove(keys);
  group_.Cut(AllCold());
  // Among the others, which make the map grow.
  EXPECT_EQ(group_.Restored(), group_.rows());
}

TEST_F(TombstoneTest, ManyMoreTombstonesThanABlockHolds) {
  TestGroupOptions options;
  options.dim = 4096;
  TestGroup group(&files_, options);
  Keys keys;
  for (int64_t key = 0; key < 500; ++key) keys.push_back(key);
  group.Insert(keys, 1);
  group.Cut(AllCold());
  group.Remove(keys);
  ASSERT_OK(group.Begin(AllCold()));
  // Half of the tombstones are written by an update that takes them back.
  keys.resize(250);
  group.Insert(keys, 2);
  ASSERT_OK(group.Drain());
  group.Commit();
  EXPECT_EQ(group.counts().tombstones, 500u);
  EXPECT_EQ(group.Restored(), Rows{});
  group.Cut(AllCold());
  EXPECT_EQ(group.Restored().size(), 250u);
}

TEST_F(TombstoneTest, TrackerForgetsRowsWhoseTombstoneIsCommitted) {
  // A stream of new keys, each removed an interval later: the tracker's memory stays bounded.
  size_t after_ten = 0;
  for (int64_t interval = 0; interval < 60; ++interval) {
    Keys born, dead;
    for (int64_t i = 0; i < 2000; ++i) {
      born.push_back(interval * 2000 + i);
      dead.push_back((interval - 1) * 2000 + i);
    }
    group_.Insert(born, 1);
    if (interval > 0) group_.Remove(dead);
    group_.Cut(AllCold());
    if (interval == 10) after_ten = group_.group()->Stats().tracker_bytes;
  }
  EXPECT_EQ(group_.group()->Stats().rows, 2000u);
  EXPECT_EQ(group_.group()->Stats().table_rows.at(0), 2000u);
  EXPECT_LT(group_.group()->Stats().tracker_bytes, 2 * after_ten);
  EXPECT_EQ(group_.Restored(), group_.rows());
}

TEST_F(TombstoneTest, TrackerRemembersThemUntilThen) {
  Keys keys, others;
  for (int64_t key = 0; key < 1000; ++key) keys.push_back(key);
  for (int64_t key = 1000; key < 20000; ++key) others.push_back(key);
  group_.Insert(keys, 1);
  group_.Cut(AllCold());
  group_.Remove(keys);
  ASSERT_OK(group_.Begin(AllCold()));
  ASSERT_OK(group_.Drain());
  EXPECT_EQ(group_.counts().tombstones, 1000u);
  // The map grows between the cut that says they are removed and its failure.
  group_.Insert(others, 2);
  group_.Insert({20000}, 2);
  group_.Fail();
  group_.Remove(others);
  group_.Cut(AllCold());
  EXPECT_EQ(group_.Restored(), (Rows{{20000, {2, 2}}}));
}

}  // namespace
}  // namespace adaptcp
