// SPDX-License-Identifier: Apache-2.0
// Bounded supply of row blocks: the memory a cut may hold between training and the disk.

#ifndef ADAPTCP_ENGINE_BLOCK_POOL_H_
#define ADAPTCP_ENGINE_BLOCK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/format/row_block.h"

namespace adaptcp {

// How many rows a block of a segment should hold, of tables whose rows are `row_bytes` long.
size_t RowsPerBlock(const std::vector<uint32_t>& row_bytes);

// Bytes that all blocks of the process share, so that many table groups stay within one bound.
// Thread-safe.
class BlockBudget {
 public:
  explicit BlockBudget(size_t bytes) : limit_(bytes) {}

  // The one that the kernels use: 64 MiB.
  static BlockBudget* Process();

 private:
  friend class BlockPool;

  const size_t limit_;

  Mutex mu_;
  CondVar changed_;
  size_t taken_ TF_GUARDED_BY(mu_) = 0;
};

// Makes the blocks of one cut, within the budget. Thread-safe; outlives its blocks.
//
// Groups are drained one after the other, so a group whose drain runs must not wait for blocks that
// sit full in a group whose drain has not started. Therefore nobody waits while the writer of the
// cut has fewer than kBacklogBlocks to write: those who wait are woken by that very writer.
class BlockPool {
 public:
  static constexpr size_t kBacklogBlocks = 8;

  // Blocks hold `capacity` rows of tables whose rows are `row_bytes` long.
  BlockPool(BlockBudget* budget, std::vector<uint32_t> row_bytes, size_t capacity);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // An empty block; waits while the budget is exhausted and kBacklogBlocks are full.
  std::unique_ptr<RowBlock> Acquire();
  // Counts a block as full: it waits for the writer, or is being written, until ReleaseFull.
  void MarkFull();
  void ReleaseFull(std::unique_ptr<RowBlock> block);
  void Release(std::unique_ptr<RowBlock> block);
  // Lets everybody have their blocks at once from now on, for a cut that failed.
  void StopWaiting();

  size_t capacity() const { return capacity_; }

 private:
  // Constant after construction.
  BlockBudget* const budget_;
  const std::vector<uint32_t> row_bytes_;
  const size_t capacity_;
  size_t block_bytes_ = 0;

  size_t full_ TF_GUARDED_BY(budget_->mu_) = 0;
  bool nobody_waits_ TF_GUARDED_BY(budget_->mu_) = false;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_BLOCK_POOL_H_
