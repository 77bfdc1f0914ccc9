// SPDX-License-Identifier: Apache-2.0
// A cut that fails harms that checkpoint only: training goes on and the next one is complete.

#include <gtest/gtest.h>

#include <functional>

#include "tests/cc/engine/test_group.h"

namespace adaptcp {
namespace {

const Status kDiskFull(StatusCode::kResourceExhausted, "disk full");

class FailedCutTest : public testing::Test {
 protected:
  explicit FailedCutTest(const TestGroupOptions& options = {}) : group_(&files_, options) {}

  // A cut whose drain must fail, with an update of `updated` before it.
  void FailCut(const CutOptions& options, const Keys& updated = {}) {
    ASSERT_OK(group_.Begin(options));
    if (!updated.empty()) group_.Insert(updated, ++version_);
    const std::vector<std::string> before = files_.Paths();
    EXPECT_FALSE(group_.Drain().ok());
    EXPECT_TRUE(group_.segments().empty());
    files_.ClearFaults();
    EXPECT_EQ(files_.Paths(), before) << "a failed cut left a file";
    EXPECT_EQ(group_.group()->EndCut(true).code(), StatusCode::kFailedPrecondition);
    group_.Fail();
  }
  void ExpectNextCutComplete(const CutOptions& options) {
    const Rows expected = group_.rows();
    group_.Cut(options);
    EXPECT_EQ(group_.Restored(), expected);
  }

  MemoryFileSystem files_;
  TestGroup group_;
  uint32_t version_ = 10;
};

TEST_F(FailedCutTest, AnyFileFaultFailsTheCutAndNothingElse) {
  using Files = MemoryFileSystem;
  const std::vector<std::function<void()>> faults = {
      [&] { files_.FailNth(Files::kOpen, 1, kDiskFull); },
      [&] { files_.FailNth(Files::kOpen, 2, kDiskFull); },
      [&] { files_.FailNth(Files::kAppend, 1, kDiskFull); },
      [&] { files_.FailFromNth(Files::kAppend, 7, kDiskFull); },
      [&] { files_.FailNth(Files::kSync, 1, kDiskFull); },
      [&] { files_.FailNth(Files::kSync, 2, kDiskFull); },
      [&] { files_.FailNth(Files::kClose, 2, kDiskFull); },
      [&] { group_.table(0)->FailNthRead(1, Internal("no memory")); },
      [&] { group_.table(1)->FailNthRead(2, Internal("no memory")); },
  };
  // Hot and cold rows, so that the cut has two segments.
  for (int i = 0; i < 8; ++i) {
    group_.Insert({1, 2}, ++version_);
    group_.Cut(Threshold(0.5));
  }
  for (size_t i = 0; i < faults.size(); ++i) {
    SCOPED_TRACE(i);
    group_.Insert({1, 2, 3, 4}, ++version_);
    group_.Remove({5});
    faults[i]();
    FailCut(Threshold(0.5), {1, 3});
    ExpectNextCutComplete(Threshold(0.5));
  }
}

TEST_F(FailedCutTest, FullDiskFailsTheCut) {
  group_.Insert({1}, 1);
  group_.Cut(AllCold());
  const uint64_t used = files_.Contents(group_.chain().newest_first[0].path).size();
  group_.Insert({1}, 2);
  files_.SetCapacity(used + 10);
  FailCut(AllCold());
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
  files_.SetCapacity(1 << 30);
  ExpectNextCutComplete(AllCold());
}

TEST_F(FailedCutTest, RowsOfSeveralFailedCutsAddUp) {
  for (int64_t key = 1; key <= 4; ++key) {
    group_.Insert({key}, 1);
    files_.FailNth(MemoryFileSystem::kOpen, 1, kDiskFull);
    FailCut(AllCold());
  }
  group_.Cut(AllCold());
  EXPECT_EQ(group_.counts().rows_cold, 4u);
  EXPECT_EQ(group_.Restored(), group_.rows());
}

TEST_F(FailedCutTest, RowThatTurnedColdInItIsInTheNextIncrement) {
  group_.Insert({1, 2}, 1);
  group_.Cut(AllHot());
  files_.FailNth(MemoryFileSystem::kSync, 1, kDiskFull);
  // Both leave the differential, one by the drain and one by an update.
  FailCut(AllCold(), {2});
  group_.Cut(AllCold());
  EXPECT_EQ(group_.counts().rows_cold, 2u);
  EXPECT_EQ(group_.Restored(), group_.rows());
}

TEST_F(FailedCutTest, RowThatTurnedHotInItStandsInTheNextDifferential) {
  group_.Insert({1}, 1);
  files_.FailNth(MemoryFileSystem::kSync, 1, kDiskFull);
  FailCut(AllHot());
  ExpectNextCutComplete(AllHot());
  EXPECT_EQ(group_.counts().rows_hot, 1u);
  ExpectNextCutComplete(AllHot());
}

TEST_F(FailedCutTest, TombstonesAreWrittenAgain) {
  for (const CutOptions& options : {AllCold(), AllHot()}) {
    group_.Insert({1, 2, 3}, 1);
    group_.Cut(options);
    group_.Remove({1, 2});
    files_.FailNth(MemoryFileSystem::kSync, 1, kDiskFull);
    FailCut(options);
    group_.Insert({2}, 2);
    ExpectNextCutComplete(options);
    EXPECT_EQ(group_.counts().tombstones, 1u);
  }
}

TEST_F(FailedCutTest, FailedBaseRequiresABase) {
  group_.Insert({1, 2}, 1);
  group_.Cut(AllHot());
  group_.Insert({1}, 2);
  files_.FailNth(MemoryFileSystem::kSync, 1, kDiskFull);
  FailCut(Base());
  EXPECT_TRUE(group_.group()->Stats().base_required);
  ExpectFailure(group_.Begin(AllHot()), StatusCode::kFailedPrecondition, "expected a base");
  ExpectNextCutComplete(Base());
  EXPECT_FALSE(group_.group()->Stats().base_required);
  group_.Insert({1}, 3);
  ExpectNextCutComplete(AllHot());
}

TEST_F(FailedCutTest, CutGivenUpBeforeItsDrainFails) {
  group_.Insert({1, 2}, 1);
  ASSERT_OK(group_.Begin(AllCold()));
  group_.Insert({1}, 2);
  group_.Fail();
  ExpectFailure(group_.Drain(), StatusCode::kFailedPrecondition, "no checkpoint to drain");
  ExpectNextCutComplete(AllCold());
}

TEST_F(FailedCutTest, CutThatWasDrainedButNotCommittedFails) {
  group_.Insert({1}, 1);
  ASSERT_OK(group_.Begin(AllCold()));
  ASSERT_OK(group_.Drain());
  group_.Fail();
  ExpectNextCutComplete(AllCold());
}

TEST_F(FailedCutTest, FailedReadInAnUpdateFailsTheCutNotTheUpdate) {
  group_.Insert({1}, 1);
  ASSERT_OK(group_.Begin(AllCold()));
  group_.table(1)->FailNthRead(1, Internal("no memory"));
  group_.Insert({1}, 2);
  ExpectFailure(group_.Drain(), StatusCode::kInternal, "no memory");
  group_.Fail();
  EXPECT_EQ(group_.rows(), (Rows{{1, {2, 2}}}));
  ExpectNextCutComplete(AllCold());
}

TEST_F(FailedCutTest, UpdatesSaveNothingForAFailedCut) {
  group_.Insert({1, 2, 3}, 1);
  ASSERT_OK(group_.Begin(AllCold()));
  group_.table(1)->FailNthRead(1, Internal("no memory"));
  group_.Insert({1}, 2);
  const uint64_t read = group_.table(0)->rows_read();
  group_.Insert({2, 3}, 2);
  EXPECT_EQ(group_.table(0)->rows_read(), read);
  EXPECT_FALSE(group_.Drain().ok());
  group_.Fail();
  ExpectNextCutComplete(AllCold());
}

// The rows of both classes are claimed before the first are read; when those cannot be read, the
// others must not be touched later: by then they may have moved.
TEST_F(FailedCutTest, FailedReadOfOneClassDropsTheOther) {
  Keys hot, cold, born;
  for (int64_t key = 0; key < 2000; ++key) (key % 2 == 0 ? hot : cold).push_back(key);
  for (int64_t key = 2000; key < 60000; ++key) born.push_back(key);
  for (int i = 0; i < 8; ++i) {
    group_.Insert(hot, ++version_);
    group_.Cut(Threshold(0.5));
  }
  group_.Insert(hot, ++version_);
  group_.Insert(cold, ++version_);
  ASSERT_OK(group_.Begin(Threshold(0.5)));
  group_.table(0)->FailNthRead(1, Internal("no memory"));
  Keys all;
  for (int64_t key = 0; key < 60000; ++key) all.push_back(key);
  group_.Insert(all, ++version_);
  EXPECT_FALSE(group_.Drain().ok());
  group_.Fail();
  ExpectNextCutComplete(Threshold(0.5));
}

TEST_F(FailedCutTest, SkippedCutMergesIntoTheNext) {
  // Nobody began a cut of the first interval: two intervals' rows make one increment.
  group_.Insert({1}, 1);
  group_.Cut(AllCold());
  CutOptions later = AllCold();
  group_.Insert({2}, 2);
  later.interval = 7;
  ASSERT_OK(TableGroup::Begin({group_.group()}, later));
  group_.Began(later);
  group_.Insert({2}, 3);
  group_.Insert({3}, 3);
  ASSERT_OK(group_.Drain());
  group_.Commit();
  EXPECT_EQ(group_.group()->Stats().interval, 8u);
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {2, 2}}}));
  ExpectNextCutComplete(AllCold());
}

}  // namespace
}  // namespace adaptcp
