// SPDX-License-Identifier: Apache-2.0
// When an update may rely on another's marks.

#include "custom_ops/engine/recent_batch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

using Verdict = RecentBatch::Verdict;

KeyBatch Batch(const std::vector<int64_t>& keys) {
  auto owner = std::make_shared<const std::vector<int64_t>>(keys);
  return KeyBatch{owner->data(), owner->size(), owner};
}

class RecentBatchTest : public testing::Test {
 protected:
  // Marks a batch from beginning to end.
  void Mark(const KeyBatch& batch, uint32_t interval) {
    ASSERT_EQ(recent_.Enter(batch, interval), Verdict::kMarkAndTell);
    recent_.Done();
  }

  Watchdog watchdog_;
  RecentBatch recent_;
};

TEST_F(RecentBatchTest, SameKeysInTheSameIntervalAreMarked) {
  const KeyBatch batch = Batch({1, 2, 3});
  Mark(batch, 1);
  EXPECT_EQ(recent_.Enter(batch, 1), Verdict::kMarked);
  // Whichever memory they are in.
  EXPECT_EQ(recent_.Enter(Batch({1, 2, 3}), 1), Verdict::kMarked);
}

TEST_F(RecentBatchTest, OtherKeysAreNot) {
  for (const auto& other :
       {std::vector<int64_t>{1, 2}, {1, 2, 4}, {1, 2, 3, 4}, {3, 2, 1}, {2, 3}}) {
    Mark(Batch({1, 2, 3}), 1);
    Mark(Batch(other), 1);
  }
}

TEST_F(RecentBatchTest, SameKeysInAnotherIntervalAreNot) {
  const KeyBatch batch = Batch({1, 2, 3});
  Mark(batch, 1);
  Mark(batch, 2);
  EXPECT_EQ(recent_.Enter(batch, 2), Verdict::kMarked);
}

TEST_F(RecentBatchTest, OnlyTheLatestBatchIsRemembered) {
  Mark(Batch({1}), 1);
  Mark(Batch({2}), 1);
  Mark(Batch({1}), 1);
}

TEST_F(RecentBatchTest, ForgottenBatchMustBeMarkedAgain) {
  Mark(Batch({1}), 1);
  recent_.Forget();
  Mark(Batch({1}), 1);
}

TEST_F(RecentBatchTest, BatchIsKeptAlive) {
  std::weak_ptr<const void> owner;
  {
    const KeyBatch batch = Batch({1, 2});
    owner = batch.owner;
    Mark(batch, 1);
  }
  EXPECT_FALSE(owner.expired());
  Mark(Batch({3}), 1);
  EXPECT_TRUE(owner.expired());
}

TEST_F(RecentBatchTest, OtherKeysAreMarkedWithoutWaiting) {
  ASSERT_EQ(recent_.Enter(Batch({1}), 1), Verdict::kMarkAndTell);
  EXPECT_EQ(recent_.Enter(Batch({2}), 1), Verdict::kMark);
  recent_.Done();
  EXPECT_EQ(recent_.Enter(Batch({1}), 1), Verdict::kMarked);
}

TEST_F(RecentBatchTest, NobodyWaitsWhenToldNotTo) {
  ASSERT_EQ(recent_.Enter(Batch({1}), 1), Verdict::kMarkAndTell);
  EXPECT_EQ(recent_.Enter(Batch({1}), 1, /*wait_until_done=*/false), Verdict::kMarked);
  recent_.Done();
}

TEST_F(RecentBatchTest, SameKeysWaitUntilTheyAreMarked) {
  ASSERT_EQ(recent_.Enter(Batch({1}), 1), Verdict::kMarkAndTell);
  std::atomic<bool> entered{false};
  std::thread other([&] {
    EXPECT_EQ(recent_.Enter(Batch({1}), 1), Verdict::kMarked);
    entered = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(entered);
  recent_.Done();
  other.join();
}

}  // namespace
}  // namespace adaptcp
