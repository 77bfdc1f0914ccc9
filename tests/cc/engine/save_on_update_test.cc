// SPDX-License-Identifier: Apache-2.0
// What a cut holds while the tables go on changing: the rows as they were when it began.

#include <gtest/gtest.h>

#include "tests/cc/engine/test_group.h"

namespace adaptcp {
namespace {

class SaveOnUpdateTest : public testing::TestWithParam<double> {
 protected:
  SaveOnUpdateTest() : group_(&files_) {}

  void Begin() { ASSERT_OK(group_.Begin(Threshold(GetParam()))); }
  void Finish() {
    ASSERT_OK(group_.Drain());
    group_.Commit();
  }
  void Cut() { group_.Cut(Threshold(GetParam())); }

  MemoryFileSystem files_;
  TestGroup group_;
};

// All hot, by rate, all cold.
INSTANTIATE_TEST_SUITE_P(Policies, SaveOnUpdateTest, testing::Values(0.0, 0.3, 2.0));

TEST_P(SaveOnUpdateTest, RowsBornAfterTheCutAreNotInIt) {
  group_.Insert({1}, 1);
  Begin();
  group_.Insert({2}, 2);
  Finish();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
  Cut();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {2, 2}}}));
}

TEST_P(SaveOnUpdateTest, RowsRemovedAfterTheCutAreInIt) {
  group_.Insert({1, 2}, 1);
  Begin();
  group_.Remove({1});
  Finish();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}}));
  Cut();
  EXPECT_EQ(group_.Restored(), (Rows{{2, {1, 1}}}));
}

TEST_P(SaveOnUpdateTest, WhicheverTableChangesFirstSavesTheWholeRow) {
  for (size_t first : {0, 1}) {
    group_.Insert({1}, 1);
    Begin();
    group_.InsertInto(first, {1}, 2);
    group_.InsertInto(1 - first, {1}, 3);
    Finish();
    EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}})) << first;
    EXPECT_EQ(group_.counts().rows_saved_on_update, 1u);
    EXPECT_EQ(group_.counts().rows_drained, 0u);
  }
}

TEST_P(SaveOnUpdateTest, CutBetweenParameterAndSlotHoldsOneOfEach) {
  group_.Insert({1}, 1);
  group_.InsertInto(0, {1}, 2);
  Begin();
  group_.InsertInto(1, {1}, 2);
  Finish();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {2, 1}}}));
}

TEST_P(SaveOnUpdateTest, DuplicatesInOneUpdateAreSavedOnce) {
  group_.Insert({1, 2, 1, 1}, 1);
  Begin();
  group_.Insert({2, 1, 2, 1}, 2);
  Finish();
  EXPECT_EQ(group_.counts().rows_saved_on_update, 2u);
  EXPECT_EQ(group_.Saved().size(), 2u);
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}}));
}

TEST_P(SaveOnUpdateTest, SecondUpdateAfterTheCutSavesNothing) {
  group_.Insert({1}, 1);
  Begin();
  group_.Insert({1}, 2);
  const uint64_t read = group_.table(0)->rows_read();
  group_.Insert({1}, 3);
  Finish();
  EXPECT_EQ(group_.table(0)->rows_read(), read);
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
}

TEST_P(SaveOnUpdateTest, UpdatesAfterTheDrainReadNoTable) {
  group_.Insert({1, 2}, 1);
  Begin();
  ASSERT_OK(group_.Drain());
  const uint64_t read = group_.table(0)->rows_read();
  group_.Insert({1, 3}, 2);
  EXPECT_EQ(group_.table(0)->rows_read(), read);
  group_.Commit();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}}));
}

TEST_P(SaveOnUpdateTest, RowsMissingInSomeTablesStayMissingThere) {
  group_.InsertInto(0, {1, 2, 3}, 1);
  group_.InsertInto(1, {2, 4}, 1);
  group_.RemoveFrom(0, {2});
  Cut();
  const Rows expected = {
      {1, {1, kAbsent}}, {2, {kAbsent, 1}}, {3, {1, kAbsent}}, {4, {kAbsent, 1}}};
  EXPECT_EQ(group_.Restored(), expected);
}

TEST_P(SaveOnUpdateTest, UpdateThatFailsLeavesTheOldRow) {
  group_.Insert({1}, 1);
  Begin();
  group_.table(0)->FailNthWrite(1, Internal("no room"));
  const Status status = group_.Update({1, 2}, [&] { return group_.Write(0, {1, 2}, 2); });
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  Finish();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
  Cut();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
}

TEST_P(SaveOnUpdateTest, UpdateWhileABaseDrainsIsInTheNextCut) {
  group_.Insert({1, 2, 3}, 1);
  ASSERT_OK(group_.Begin(Base()));
  group_.Insert({1}, 2);
  ASSERT_OK(group_.Drain());
  group_.Insert({2}, 3);
  group_.Commit();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}, {3, {1, 1}}}));
  Cut();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {2, 2}}, {2, {3, 3}}, {3, {1, 1}}}));
}

TEST_P(SaveOnUpdateTest, AccumulateThatStraddlesTheCutIsInTheNext) {
  group_.Insert({1}, 1);
  Cut();
  const KeyBatch batch = group_.Batch({1, 2});
  ASSERT_OK(group_.group()->MarkUpdated(batch));
  Cut();
  group_.Accumulate(0, {1, 2}, 2);
  ASSERT_OK(group_.group()->MarkUpdated(batch));
  Cut();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {2, 1}}, {2, {2, kAbsent}}}));
}

TEST_P(SaveOnUpdateTest, CutsWithoutChangesAreEmptyButForStandingRows) {
  Cut();
  EXPECT_TRUE(group_.segments().empty());
  group_.Insert({1}, 1);
  Cut();
  Cut();
  EXPECT_EQ(group_.segments().size(), GetParam() == 0 ? 1u : 0u);
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
}

TEST_P(SaveOnUpdateTest, EmptyUpdateRunsAndMarksNothing) {
  bool ran = false;
  ASSERT_OK(group_.Update({}, [&] {
    ran = true;
    return Status::OK();
  }));
  EXPECT_TRUE(ran);
  EXPECT_EQ(group_.group()->Stats().rows, 0u);
}

TEST_P(SaveOnUpdateTest, ExtremeKeysAreKeys) {
  const Keys keys = {0, -1, INT64_MAX, INT64_MIN, int64_t{1} << 32};
  group_.Insert(keys, 1);
  Begin();
  group_.Insert(keys, 2);
  Finish();
  EXPECT_EQ(group_.Restored().size(), keys.size());
  for (int64_t key : keys) EXPECT_EQ(group_.Restored()[key], (Row{1, 1})) << key;
}

TEST_P(SaveOnUpdateTest, TableAttachedLaterIsInLaterCuts) {
  group_.Insert({1, 2}, 1);
  Begin();
  auto table = std::make_unique<MemoryTable>(MakeTable("table-2", "float32", 3));
  MemoryTable* slot = table.get();
  ASSERT_OK(group_.group()->Attach(2, slot, std::move(table)));
  const std::string value = ValueOf(1, 2, 5, 12);
  const int64_t key = 1;
  ASSERT_OK(group_.Update({1}, [&] { return slot->Write(&key, 1, value.data()); }));
  Finish();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}}));
  Cut();
  EXPECT_EQ(group_.Saved().at(1).row, (Row{1, 1, 5}));
}

}  // namespace
}  // namespace adaptcp
