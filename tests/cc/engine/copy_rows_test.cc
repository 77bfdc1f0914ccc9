// SPDX-License-Identifier: Apache-2.0
// Stop-and-copy: all rows are copied while updates wait, and written later.

#include <gtest/gtest.h>

#include "tests/cc/engine/test_group.h"
#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

const Status kDiskFull(StatusCode::kResourceExhausted, "disk full");
constexpr int64_t kRows = 5000;

class CopyRowsTest : public testing::Test {
 protected:
  CopyRowsTest() {
    for (int64_t key = 0; key < kRows; ++key) all_.push_back(key);
    group_.Insert(all_, 1);
  }

  static TestGroupOptions SmallBudget(BlockBudget* budget) {
    TestGroupOptions options;
    options.dim = 500;  // so that the rows need several blocks
    options.budget = budget;
    return options;
  }
  void BeginAndCopy(const CutOptions& options) {
    ASSERT_OK(group_.Begin(options));
    ASSERT_OK(group_.group()->CopyRows());
  }
  void ExpectRestored(uint32_t version) {
    const Rows restored = group_.Restored();
    EXPECT_EQ(restored.size(), all_.size());
    for (const auto& [key, row] : restored) EXPECT_EQ(row, Row(2, version)) << key;
  }

  Watchdog watchdog_;
  MemoryFileSystem files_;
  BlockBudget budget_{0};
  TestGroup group_{&files_, SmallBudget(&budget_)};
  Keys all_;
};

TEST_F(CopyRowsTest, UpdatesAfterTheCopySaveNothing) {
  for (const CutOptions& options : {AllHot(), AllCold(), Base()}) {
    group_.Insert(all_, 1);
    BeginAndCopy(options);
    group_.Insert(all_, 2);
    ASSERT_OK(group_.Drain());
    EXPECT_EQ(group_.counts().rows_saved_on_update, 0u);
    EXPECT_EQ(group_.counts().rows_drained, all_.size());
    group_.Commit();
    ExpectRestored(1);
  }
}

TEST_F(CopyRowsTest, RowsTakeTheMemoryTheyNeed) {
  // Nobody writes while rows are copied, so waiting for the budget would never end.
  BeginAndCopy(AllHot());
  ASSERT_OK(group_.Drain());
  group_.Commit();
  ExpectRestored(1);
}

TEST_F(CopyRowsTest, NothingIsWrittenBeforeTheDrain) {
  files_.FailFromNth(MemoryFileSystem::kOpen, 1, kDiskFull);
  BeginAndCopy(AllHot());
  files_.ClearFaults();
  ASSERT_OK(group_.Drain());
  group_.Commit();
  ExpectRestored(1);
}

TEST_F(CopyRowsTest, FailedReadIsToldByTheDrain) {
  group_.table(1)->FailNthRead(2, Internal("no such row"));
  BeginAndCopy(AllHot());
  group_.table(1)->ClearFaults();
  group_.Insert({0}, 1);
  ExpectFailure(group_.Drain(), StatusCode::kInternal, "no such row");
  group_.Fail();
  group_.Cut(AllHot());
  ExpectRestored(1);
}

TEST_F(CopyRowsTest, CopyThatIsGivenUpIsInTheNext) {
  BeginAndCopy(AllHot());
  group_.Fail();
  group_.Cut(AllCold());
  ExpectRestored(1);
}

TEST_F(CopyRowsTest, CopyThatCannotBeWrittenIsInTheNext) {
  BeginAndCopy(AllHot());
  files_.FailFromNth(MemoryFileSystem::kAppend, 3, kDiskFull);
  ExpectFailure(group_.Drain(), StatusCode::kResourceExhausted, "disk full");
  files_.ClearFaults();
  group_.Fail();
  BeginAndCopy(AllHot());
  ASSERT_OK(group_.Drain());
  group_.Commit();
  ExpectRestored(1);
}

TEST_F(CopyRowsTest, OnlyACutThatNobodyDrainedCanBeCopied) {
  const auto refused = [&] {
    ExpectFailure(group_.group()->CopyRows(), StatusCode::kFailedPrecondition,
                  "table group 'group' has no checkpoint to copy");
  };
  refused();
  BeginAndCopy(AllHot());
  refused();
  ASSERT_OK(group_.Drain());
  refused();
  group_.Commit();
  refused();
}

TEST_F(CopyRowsTest, TablesMayBeReplacedAfterTheCopy) {
  BeginAndCopy(AllHot());
  group_.Replace({1, 2, 3}, 7);
  ASSERT_OK(group_.Drain());
  group_.Commit();
  ExpectRestored(1);
}

}  // namespace
}  // namespace adaptcp
