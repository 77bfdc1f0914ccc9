// SPDX-License-Identifier: Apache-2.0
// Memory between training and the disk is bounded: updates wait, are counted as stall, lose nothing
// and never hang, whoever else waits for the same memory.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/cc/engine/test_group.h"
#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

Keys Range(int64_t begin, int64_t end) {
  Keys keys;
  for (int64_t key = begin; key < end; ++key) keys.push_back(key);
  return keys;
}

class BackpressureTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 1500;

  // Groups that share `budget` bytes for blocks of 64 rows, a MiB each.
  void MakeGroups(size_t n, size_t budget, size_t tables = 1) {
    budget_ = std::make_unique<BlockBudget>(budget);
    for (size_t i = 0; i < n; ++i) {
      TestGroupOptions options;
      options.group.name = Concat("group-", i);
      options.tables = tables;
      options.dim = 4096;
      options.budget = budget_.get();
      groups_.push_back(std::make_unique<TestGroup>(&files_, options));
      groups_.back()->Insert(Range(0, kRows), 1);
    }
  }
  TestGroup& group() { return *groups_[0]; }

  void BeginAll(CutOptions options) {
    std::vector<TableGroup*> groups;
    for (auto& group : groups_) groups.push_back(group->group());
    options.interval = group().group()->Stats().interval;
    ASSERT_OK(TableGroup::Begin(groups, options));
    for (auto& group : groups_) group->Began(options);
  }
  // Returns when an update of the group has saved some rows and saves no more.
  static void AwaitUpdateThatWaits(TestGroup* group) {
    for (uint64_t read = 0, before = 0; read == 0 || read != before;) {
      before = read;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      read = group->table(0)->rows_read();
    }
  }
  // Expects all rows in the checkpoint, each with this version.
  void ExpectRestored(TestGroup* group, uint32_t version) {
    const Rows restored = group->Restored();
    EXPECT_EQ(restored.size(), static_cast<size_t>(kRows));
    for (const auto& [key, row] : restored) EXPECT_EQ(row[0], version) << key;
  }

  Watchdog watchdog_;
  MemoryFileSystem files_;
  std::unique_ptr<BlockBudget> budget_;
  std::vector<std::unique_ptr<TestGroup>> groups_;
};

TEST_F(BackpressureTest, DrainAloneGetsByWithoutABudget) {
  MakeGroups(1, 0);
  group().Cut(AllCold());
  ExpectRestored(&group(), 1);
  EXPECT_EQ(group().counts().stall_nanos, 0u);
}

TEST_F(BackpressureTest, UpdateWaitsForTheDrainToStart) {
  MakeGroups(1, 0);
  BeginAll(AllCold());
  std::thread update([&] { group().Insert(Range(0, kRows), 2); });
  AwaitUpdateThatWaits(&group());
  // It got the blocks that a cut may always have, a block in hand, and no more.
  EXPECT_LE(group().table(0)->rows_read(), (BlockPool::kBacklogBlocks + 1) * 64);
  ASSERT_OK(group().Drain());
  update.join();
  group().Commit();
  ExpectRestored(&group(), 1);
  EXPECT_GT(group().counts().stall_nanos, 20u * 1000 * 1000);
  group().Cut(AllCold());
  ExpectRestored(&group(), 2);
}

TEST_F(BackpressureTest, SlowDiskSlowsUpdatesDown) {
  MakeGroups(1, 0);
  BeginAll(AllCold());
  files_.SetDelay(MemoryFileSystem::kAppend, std::chrono::milliseconds(1));
  std::thread drain([&] { EXPECT_OK(group().Drain()); });
  group().Insert(Range(0, kRows), 2);
  drain.join();
  group().Commit();
  ExpectRestored(&group(), 1);
}

TEST_F(BackpressureTest, UpdateThatWaitsIsLetGoWhenTheCutIsGivenUp) {
  MakeGroups(1, 0);
  BeginAll(AllCold());
  std::thread update([&] { group().Insert(Range(0, kRows), 2); });
  AwaitUpdateThatWaits(&group());
  group().Fail();
  update.join();
  group().Cut(AllCold());
  ExpectRestored(&group(), 2);
}

TEST_F(BackpressureTest, UpdateThatWaitsIsLetGoWhenTheDiskIsFull) {
  MakeGroups(1, 0);
  BeginAll(AllCold());
  std::thread update([&] { group().Insert(Range(0, kRows), 2); });
  AwaitUpdateThatWaits(&group());
  files_.SetCapacity(1 << 20);
  EXPECT_EQ(group().Drain().code(), StatusCode::kResourceExhausted);
  update.join();
  files_.SetCapacity(1 << 30);
  group().Fail();
  group().Cut(AllCold());
  ExpectRestored(&group(), 2);
}

TEST_F(BackpressureTest, BeginDoesNotWaitForAnUpdateThatWaits) {
  MakeGroups(1, 0);
  BeginAll(AllCold());
  std::thread update([&] { group().Insert(Range(0, kRows), 2); });
  AwaitUpdateThatWaits(&group());
  ExpectFailure(group().Begin(AllCold()), StatusCode::kFailedPrecondition, "still saving");
  ASSERT_OK(group().Drain());
  update.join();
  group().Commit();
  ExpectRestored(&group(), 1);
}

// The second group's updates take the whole budget while the first is drained. The first must not
// wait for them: the second's drain comes after its own.
TEST_F(BackpressureTest, GroupsWhoseDrainHasNotStartedHoldNobodyUp) {
  MakeGroups(3, size_t{12} << 20);
  BeginAll(AllCold());
  std::vector<std::thread> updates;
  for (size_t i = 1; i < groups_.size(); ++i) {
    updates.emplace_back([&, i] { groups_[i]->Insert(Range(0, kRows), 2); });
  }
  for (size_t i = 1; i < groups_.size(); ++i) AwaitUpdateThatWaits(groups_[i].get());
  files_.SetDelay(MemoryFileSystem::kAppend, std::chrono::microseconds(300));
  for (auto& group : groups_) ASSERT_OK(group->Drain());
  for (std::thread& update : updates) update.join();
  for (auto& group : groups_) {
    group->Commit();
    ExpectRestored(group.get(), 1);
  }
}

// Each thread needs a block of each class at a time.
TEST_F(BackpressureTest, ThreadsThatHoldOneBlockAndNeedAnotherHoldNobodyUp) {
  for (size_t budget : {size_t{0}, size_t{4} << 20}) {
    groups_.clear();
    MakeGroups(2, budget);
    for (uint32_t i = 0; i < 8; ++i) {
      for (auto& group : groups_) {
        // Keys of few stripes, hot and cold.
        group->Insert(Range(0, kRows / 2), 2 + i);
        group->Cut(Threshold(0.5));
      }
    }
    for (auto& group : groups_) group->Insert(Range(0, kRows), 20);
    BeginAll(Threshold(0.5));
    std::vector<std::thread> updates;
    for (int64_t t = 0; t < 12; ++t) {
      updates.emplace_back([&, t] {
        const Keys keys = Range(t * kRows / 12, (t + 1) * kRows / 12);
        for (auto& group : groups_) group->Insert(keys, 21);
      });
    }
    for (auto& group : groups_) ASSERT_OK(group->Drain());
    for (std::thread& update : updates) update.join();
    for (auto& group : groups_) {
      group->Commit();
      EXPECT_GT(group->counts().rows_hot, 0u);
      EXPECT_GT(group->counts().rows_cold, 0u);
      ExpectRestored(group.get(), 20);
    }
  }
}

TEST_F(BackpressureTest, StallCountsNothingWhenNoRowHadToBeSaved) {
  MakeGroups(1, size_t{1} << 30);
  group().Cut(AllCold());
  group().Cut(AllCold());
  EXPECT_EQ(group().counts().stall_nanos, 0u);
}

}  // namespace
}  // namespace adaptcp
