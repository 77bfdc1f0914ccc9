// SPDX-License-Identifier: Apache-2.0
// Saving ahead of updates: rows that a thread which prepares input knows of are saved by it, once,
// with the values of the cut, and it keeps nobody waiting.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/cc/engine/test_group.h"
#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

class PrefetchTest : public testing::TestWithParam<CutOptions> {
 protected:
  PrefetchTest() : group_(std::make_unique<TestGroup>(&files_)) {}

  void Begin() { ASSERT_OK(group_->Begin(GetParam())); }
  void Prefetch(const Keys& keys, size_t window = 3) { group_->Prefetch(keys, window); }
  void Finish() {
    ASSERT_OK(group_->Drain());
    group_->Commit();
  }
  void ExpectSaved(uint64_t on_update, uint64_t drained, uint64_t prefetched) {
    EXPECT_EQ(group_->counts().rows_saved_on_update, on_update);
    EXPECT_EQ(group_->counts().rows_drained, drained);
    EXPECT_EQ(group_->counts().rows_prefetched, prefetched);
  }
  void ExpectNextCutHoldsTheTables() {
    group_->Cut(GetParam());
    EXPECT_EQ(group_->Restored(), group_->rows());
  }

  Watchdog watchdog_;
  MemoryFileSystem files_;
  std::unique_ptr<TestGroup> group_;
};

INSTANTIATE_TEST_SUITE_P(Policies, PrefetchTest,
                         testing::Values(AllCold(), AllHot(), Threshold(0.3), Base()));

TEST_P(PrefetchTest, UpdateFindsPrefetchedRowsSaved) {
  group_->Insert({1, 2, 3, 4}, 1);
  Begin();
  Prefetch({1, 2});
  const uint64_t read = group_->table(0)->rows_read();
  group_->Insert({1, 2}, 2);
  EXPECT_EQ(group_->table(0)->rows_read(), read);
  group_->Insert({3}, 2);
  Finish();
  ExpectSaved(/*on_update=*/1, /*drained=*/1, /*prefetched=*/2);
  EXPECT_EQ(group_->Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}, {3, {1, 1}}, {4, {1, 1}}}));
  ExpectNextCutHoldsTheTables();
}

TEST_P(PrefetchTest, MarksAndChangesNothing) {
  group_->Insert({1, 2}, 1);
  group_->Cut(Base());
  Prefetch({1, 2, 7});
  EXPECT_EQ(group_->group()->Stats().rows, 2u);
  ASSERT_OK(group_->Begin(AllCold()));
  Prefetch({1, 2, 7});
  Finish();
  ExpectSaved(0, 0, 0);
  EXPECT_EQ(group_->rows(), (Rows{{1, {1, 1}}, {2, {1, 1}}}));
}

TEST_P(PrefetchTest, KeysThatComeOftenAreReadOnce) {
  group_->Insert({1, 2}, 1);
  Begin();
  const uint64_t read = group_->table(0)->rows_read();
  Prefetch(Keys(100, 1));
  EXPECT_EQ(group_->table(0)->rows_read(), read + 1);
  Finish();
  ExpectSaved(0, 1, 1);
}

TEST_P(PrefetchTest, RemovedRowLeavesItsTombstone) {
  group_->Insert({1, 2}, 1);
  group_->Cut(GetParam());
  group_->Remove({1});
  Begin();
  Prefetch({1, 2});
  group_->Insert({1}, 2);
  Finish();
  EXPECT_EQ(group_->Restored(), (Rows{{2, {1, 1}}}));
  ExpectNextCutHoldsTheTables();
}

TEST_P(PrefetchTest, BatchesFromBeforeTheCutAreSavedWithTheNext) {
  group_->Insert({1, 2, 3, 4}, 1);
  for (int64_t key : {1, 2, 3}) Prefetch({key}, /*window=*/2);
  Begin();
  Prefetch({12}, /*window=*/3);
  group_->Insert({1, 2, 3}, 2);
  Finish();
  ExpectSaved(/*on_update=*/1, /*drained=*/1, /*prefetched=*/2);
  ExpectNextCutHoldsTheTables();
}

TEST_P(PrefetchTest, DrainSavesBatchesFromBeforeTheCutFirst) {
  Keys keys;
  for (int64_t key = 0; key < 1000; ++key) keys.push_back(key);
  group_->Insert(keys, 1);
  Prefetch({999, 5, 333, 12345, 5, 77});
  Begin();
  Finish();
  ExpectSaved(0, 1000, 0);
  Keys first = group_->SavedInOrder();
  first.resize(4);
  std::sort(first.begin(), first.end());
  EXPECT_EQ(first, (Keys{5, 77, 333, 999}));
}

// The input thread stops in the middle of its read; it must hold nothing that an update needs.
TEST_P(PrefetchTest, RowChangedWhileItIsReadKeepsItsOldValue) {
  group_->Insert({1, 2}, 1);
  Begin();
  group_->table(1)->PauseNextRead();
  std::thread input([&] { Prefetch({1, 2}); });
  group_->table(1)->AwaitPausedRead();
  group_->Insert({1, 2}, 2);
  group_->Remove({2});
  group_->table(1)->ResumeRead();
  input.join();
  Finish();
  ExpectSaved(/*on_update=*/2, 0, 0);
  EXPECT_EQ(group_->Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}}));
  ExpectNextCutHoldsTheTables();
}

TEST_P(PrefetchTest, CutEndsAfterTheInputThreadHasLeftIt) {
  group_->Insert({1, 2}, 1);
  Begin();
  group_->table(0)->PauseNextRead();
  std::thread input([&] { Prefetch({1}); });
  group_->table(0)->AwaitPausedRead();
  std::thread drain([&] { Finish(); });
  // The drain saves both rows itself; training goes on all the while.
  for (uint32_t version = 2; version < 50; ++version) group_->Insert({1, 3}, version);
  ExpectFailure(TableGroup::Begin({group_->group()}, GetParam()), StatusCode::kFailedPrecondition,
                "still saving");
  group_->table(0)->ResumeRead();
  input.join();
  drain.join();
  EXPECT_EQ(group_->Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}}));
  ExpectNextCutHoldsTheTables();
}

TEST_P(PrefetchTest, CutMayBeGivenUpMeanwhile) {
  group_->Insert({1, 2}, 1);
  Begin();
  group_->table(0)->PauseNextRead();
  std::thread input([&] { Prefetch({1}); });
  group_->table(0)->AwaitPausedRead();
  std::thread fail([&] { group_->Fail(); });
  group_->table(0)->ResumeRead();
  input.join();
  fail.join();
  group_->Insert({1}, 2);
  if (group_->group()->Stats().base_required) group_->Cut(Base());
  ExpectNextCutHoldsTheTables();
}

TEST_P(PrefetchTest, FailedReadFailsTheCutOnly) {
  group_->Insert({1, 2}, 1);
  Begin();
  group_->table(1)->FailNthRead(1, Internal("no memory"));
  Prefetch({1});
  // What failed needs no rows.
  const uint64_t read = group_->table(0)->rows_read();
  Prefetch({2});
  EXPECT_EQ(group_->table(0)->rows_read(), read);
  ExpectFailure(group_->Drain(), StatusCode::kInternal, "no memory");
  group_->Fail();
  if (group_->group()->Stats().base_required) group_->Cut(Base());
  ExpectNextCutHoldsTheTables();
}

// No block is left, and the drain has not started.
TEST_P(PrefetchTest, InputThreadThatWaitsForMemoryHoldsNoLock) {
  Keys keys;
  for (int64_t key = 0; key < 1500; ++key) keys.push_back(key);
  BlockBudget budget(0);
  TestGroupOptions options;
  options.tables = 1;
  options.dim = 4096;  // 64 rows a block
  options.budget = &budget;
  group_ = std::make_unique<TestGroup>(&files_, options);
  group_->Insert(keys, 1);
  Begin();
  std::thread input([&] { Prefetch(keys); });
  for (uint64_t read = 0, before = 0; read == 0 || read != before;) {
    before = read;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    read = group_->table(0)->rows_read();
  }
  // Takes the gate.
  EXPECT_TRUE(group_->group()->Stats().cut_active);
  // Takes it exclusively, and each stripe.
  Finish();
  input.join();
  EXPECT_EQ(group_->Restored().size(), keys.size());
  ExpectNextCutHoldsTheTables();
}

}  // namespace
}  // namespace adaptcp
