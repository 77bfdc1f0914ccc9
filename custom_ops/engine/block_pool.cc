// SPDX-License-Identifier: Apache-2.0
// Waiting for and making blocks.

#include "custom_ops/engine/block_pool.h"

#include <algorithm>
#include <utility>

namespace adaptcp {
namespace {

constexpr size_t kProcessBudgetBytes = size_t{64} << 20;
// A block's values are about this long: long enough for sequential writes and for restore to read
// at full speed, short enough that a dozen groups' open blocks do not add up.
constexpr size_t kBlockValueBytes = size_t{1} << 20;
constexpr size_t kMinBlockRows = 64;
constexpr size_t kMaxBlockRows = size_t{1} << 16;
// Key, last_updated, rate, flags.
constexpr size_t kKeyRecordRowBytes = 8 + 4 + 2 + 1;

}  // namespace

size_t RowsPerBlock(const std::vector<uint32_t>& row_bytes) {
  size_t bytes = 0;
  for (uint32_t b : row_bytes) bytes += b;
  return std::clamp(kBlockValueBytes / std::max<size_t>(bytes, 1), kMinBlockRows, kMaxBlockRows);
}

BlockBudget* BlockBudget::Process() {
  static BlockBudget* const budget = new BlockBudget(kProcessBudgetBytes);
  return budget;
}

BlockPool::BlockPool(BlockBudget* budget, std::vector<uint32_t> row_bytes, size_t capacity)
    : budget_(budget), row_bytes_(std::move(row_bytes)), capacity_(capacity) {
  size_t bytes_per_row = kKeyRecordRowBytes;
  for (uint32_t bytes : row_bytes_) bytes_per_row += bytes + 1;
  block_bytes_ = bytes_per_row * capacity_;
}

std::unique_ptr<RowBlock> BlockPool::Acquire() {
  {
    MutexLock lock(&budget_->mu_);
    while (budget_->taken_ + block_bytes_ > budget_->limit_ && full_ >= kBacklogBlocks &&
           !nobody_waits_) {
      budget_->changed_.Wait(&budget_->mu_);
    }
    budget_->taken_ += block_bytes_;
  }
  auto block = std::make_unique<RowBlock>();
  block->keys.reserve(capacity_);
  block->last_updated.reserve(capacity_);
  block->rates.reserve(capacity_);
  block->flags.reserve(capacity_);
  block->columns.resize(row_bytes_.size());
  for (size_t t = 0; t < row_bytes_.size(); ++t) {
    block->columns[t].row_bytes = row_bytes_[t];
    block->columns[t].values.reserve(capacity_ * row_bytes_[t]);
    block->columns[t].present.reserve(capacity_);
  }
  return block;
}

void BlockPool::MarkFull() {
  MutexLock lock(&budget_->mu_);
  ++full_;
}

void BlockPool::ReleaseFull(std::unique_ptr<RowBlock> block) {
  block.reset();
  MutexLock lock(&budget_->mu_);
  --full_;
  budget_->taken_ -= block_bytes_;
  budget_->changed_.SignalAll();
}

void BlockPool::Release(std::unique_ptr<RowBlock> block) {
  block.reset();
  MutexLock lock(&budget_->mu_);
  budget_->taken_ -= block_bytes_;
  budget_->changed_.SignalAll();
}

void BlockPool::StopWaiting() {
  MutexLock lock(&budget_->mu_);
  nobody_waits_ = true;
  budget_->changed_.SignalAll();
}

}  // namespace adaptcp
