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

// Bytes that all blocks of the process share, so that many table groups stay within one bound.
// Thread-safe.
class BlockBudget {
 public:
  explicit BlockBudget(size_t bytes) : limit_(bytes) {}

  // Waits until `bytes` are free, then takes them.
  void Take(size_t bytes) TF_LOCKS_EXCLUDED(mu_);
  // Takes them at once, over the limit if need be.
  void TakeWithoutWaiting(size_t bytes) TF_LOCKS_EXCLUDED(mu_);
  void Return(size_t bytes) TF_LOCKS_EXCLUDED(mu_);

  // The one that the kernels use: 192 MiB.
  static BlockBudget* Process();

 private:
  const size_t limit_;

  Mutex mu_;
  CondVar returned_;
  size_t taken_ TF_GUARDED_BY(mu_) = 0;
};

// Makes blocks of one layout, within the budget. Thread-safe; outlives its blocks.
//
// Groups are drained one after the other, so a group whose drain runs must not wait for blocks that
// sit full in a group whose drain has not started: the first kGuaranteedBlocks are never refused.
class BlockPool {
 public:
  static constexpr size_t kGuaranteedBlocks = 8;

  // Blocks hold `capacity` rows of tables whose rows are `row_bytes` long.
  BlockPool(BlockBudget* budget, std::vector<uint32_t> row_bytes, size_t capacity);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // An empty block; waits while the budget is exhausted.
  std::unique_ptr<RowBlock> Acquire() TF_LOCKS_EXCLUDED(mu_);
  void Release(std::unique_ptr<RowBlock> block) TF_LOCKS_EXCLUDED(mu_);

  size_t capacity() const { return capacity_; }

 private:
  // Constant after construction.
  BlockBudget* const budget_;
  const std::vector<uint32_t> row_bytes_;
  const size_t capacity_;
  size_t block_bytes_ = 0;

  Mutex mu_;
  size_t allocated_ TF_GUARDED_BY(mu_) = 0;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_BLOCK_POOL_H_
