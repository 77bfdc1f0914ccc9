// SPDX-License-Identifier: Apache-2.0
// Who gets a block at once, and who waits for what.

#include "custom_ops/engine/block_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

using Block = std::unique_ptr<RowBlock>;

// Acquires a block on a thread of its own.
class Waiter {
 public:
  explicit Waiter(BlockPool* pool) : pool_(pool), thread_([this] { Run(); }) {}
  ~Waiter() {
    thread_.join();
    pool_->Release(std::move(block_));
  }

  bool Waits() {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return !got_block_;
  }
  // Hangs, for the watchdog to notice, if it is not so.
  void ExpectServed() {
    while (!got_block_) std::this_thread::yield();
  }

 private:
  void Run() {
    block_ = pool_->Acquire();
    got_block_ = true;
  }

  BlockPool* const pool_;
  Block block_;
  std::atomic<bool> got_block_{false};
  std::thread thread_;
};

class BlockPoolTest : public testing::Test {
 protected:
  // Blocks of 10 rows of 8 and 4 bytes.
  static std::unique_ptr<BlockPool> MakePool(BlockBudget* budget) {
    return std::make_unique<BlockPool>(budget, std::vector<uint32_t>{8, 4}, 10);
  }
  static std::vector<Block> Fill(BlockPool* pool, size_t n) {
    std::vector<Block> blocks;
    for (size_t i = 0; i < n; ++i) {
      blocks.push_back(pool->Acquire());
      pool->MarkFull();
    }
    return blocks;
  }
  static void Write(BlockPool* pool, std::vector<Block>* full) {
    pool->ReleaseFull(std::move(full->back()));
    full->pop_back();
  }
  static void WriteAll(BlockPool* pool, std::vector<Block>* full) {
    while (!full->empty()) Write(pool, full);
  }

  Watchdog watchdog_;
  BlockBudget none_{0};
};

TEST_F(BlockPoolTest, BlocksHaveRoomForTheirRows) {
  auto pool = MakePool(&none_);
  Block block = pool->Acquire();
  EXPECT_EQ(block->rows(), 0u);
  ASSERT_EQ(block->columns.size(), 2u);
  EXPECT_EQ(block->columns[0].row_bytes, 8u);
  EXPECT_GE(block->columns[0].values.capacity(), 80u);
  EXPECT_GE(block->columns[1].values.capacity(), 40u);
  EXPECT_GE(block->columns[1].present.capacity(), 10u);
  EXPECT_GE(block->keys.capacity(), 10u);
  pool->Release(std::move(block));
}

TEST_F(BlockPoolTest, NobodyWaitsWhileTheWriterHasLittleToDo) {
  auto pool = MakePool(&none_);
  std::vector<Block> full = Fill(pool.get(), BlockPool::kBacklogBlocks - 1);
  // However many are in hand.
  std::vector<Block> in_hand;
  for (int i = 0; i < 100; ++i) in_hand.push_back(pool->Acquire());
  for (Block& block : in_hand) pool->Release(std::move(block));
  WriteAll(pool.get(), &full);
}

TEST_F(BlockPoolTest, WaitsForTheWriterWhenTheBudgetIsExhausted) {
  auto pool = MakePool(&none_);
  std::vector<Block> full = Fill(pool.get(), BlockPool::kBacklogBlocks);
  Waiter first(pool.get()), second(pool.get());
  EXPECT_TRUE(first.Waits());
  EXPECT_TRUE(second.Waits());
  Write(pool.get(), &full);
  first.ExpectServed();
  second.ExpectServed();
  WriteAll(pool.get(), &full);
}

TEST_F(BlockPoolTest, NobodyWaitsWithinTheBudget) {
  BlockBudget plenty(1 << 20);
  auto pool = MakePool(&plenty);
  std::vector<Block> full = Fill(pool.get(), 3 * BlockPool::kBacklogBlocks);
  WriteAll(pool.get(), &full);
}

TEST_F(BlockPoolTest, AnotherPoolsBlocksAreWaitedForOnlyByThoseWithABacklog) {
  BlockBudget budget(20 * 300);
  auto hoarder = MakePool(&budget);
  auto pool = MakePool(&budget);
  std::vector<Block> hoard = Fill(hoarder.get(), 19);
  std::vector<Block> full = Fill(pool.get(), BlockPool::kBacklogBlocks);
  Waiter waiter(pool.get());
  EXPECT_TRUE(waiter.Waits());
  // Its own writer's progress is enough, though the budget stays exhausted.
  Write(pool.get(), &full);
  waiter.ExpectServed();
  WriteAll(pool.get(), &full);
  WriteAll(hoarder.get(), &hoard);
}

TEST_F(BlockPoolTest, AnotherPoolsReturnEndsTheWaitToo) {
  BlockBudget budget(10 * 300);
  auto other = MakePool(&budget);
  auto pool = MakePool(&budget);
  std::vector<Block> others = Fill(other.get(), 7);
  std::vector<Block> full = Fill(pool.get(), BlockPool::kBacklogBlocks);
  Waiter waiter(pool.get());
  EXPECT_TRUE(waiter.Waits());
  WriteAll(other.get(), &others);
  waiter.ExpectServed();
  WriteAll(pool.get(), &full);
}

TEST_F(BlockPoolTest, NobodyWaitsForACutThatFailed) {
  auto pool = MakePool(&none_);
  std::vector<Block> full = Fill(pool.get(), BlockPool::kBacklogBlocks);
  Waiter waiter(pool.get());
  EXPECT_TRUE(waiter.Waits());
  pool->StopWaiting();
  waiter.ExpectServed();
  pool->Release(pool->Acquire());
  WriteAll(pool.get(), &full);
}

}  // namespace
}  // namespace adaptcp
