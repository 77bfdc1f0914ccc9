// SPDX-License-Identifier: Apache-2.0
// Which inserts may be kept, and for how long.

#include "custom_ops/engine/update_log.h"

#include <utility>

namespace adaptcp {
namespace {

// With the blocks' 64 MiB it leaves 64 of the 256 that a save may take: an insert under way is not
// counted, and the allocator cannot reuse all that is freed.
constexpr size_t kProcessBudgetBytes = size_t{128} << 20;

}  // namespace

size_t LoggedInsert::bytes() const {
  size_t bytes = batch.size * sizeof(int64_t);
  for (const RowValues& table : tables) bytes += table.bytes;
  return bytes;
}

UpdateLogBudget* UpdateLogBudget::Process() {
  static UpdateLogBudget* const budget = new UpdateLogBudget(kProcessBudgetBytes);
  return budget;
}

TakenInserts::TakenInserts(UpdateLogBudget* budget, std::deque<LoggedInsert> inserts)
    : budget_(budget), inserts_(std::move(inserts)) {
  for (const LoggedInsert& insert : inserts_) budget_->Lend(insert.bytes());
}

TakenInserts::TakenInserts(TakenInserts&& other)
    : budget_(other.budget_),
      inserts_(std::move(other.inserts_)),
      newest_is_out_(other.newest_is_out_) {
  other.inserts_.clear();
}

TakenInserts::~TakenInserts() {
  while (!inserts_.empty()) FreeNewest();
}

const LoggedInsert* TakenInserts::Next() {
  if (newest_is_out_) FreeNewest();
  newest_is_out_ = !inserts_.empty();
  return newest_is_out_ ? &inserts_.back() : nullptr;
}

void TakenInserts::FreeNewest() {
  const size_t bytes = inserts_.back().bytes();
  inserts_.pop_back();
  budget_->TakeBack(bytes);
}

uint64_t UpdateLog::EnterInsert(const KeyBatch& batch, size_t table, size_t num_tables,
                                const RowValues& values) {
  MutexLock lock(&mu_);
  if (disabled_) return kUnlogged;
  if (!JoinsOpen(batch, table)) {
    if (open_) ForgetLocked();
    if (in_flight_ > 0) {
      ForgetLocked();
      ++in_flight_;
      return kUnlogged;
    }
    open_.emplace(next_number_++, batch, num_tables);
  }
  open_->insert.tables[table] = values;
  ++in_flight_;
  return open_->number;
}

bool UpdateLog::JoinsOpen(const KeyBatch& batch, size_t table) const {
  return open_ && open_->insert.tables[table].values == nullptr &&
         open_->insert.batch.SameKeys(batch);
}

uint64_t UpdateLog::EnterOther() {
  MutexLock lock(&mu_);
  if (disabled_) return kUnlogged;
  ForgetLocked();
  ++in_flight_;
  return kUnlogged;
}

void UpdateLog::Leave(uint64_t entered, bool applied) {
  std::vector<LoggedInsert> dropped;  // outlives the lock
  MutexLock lock(&mu_);
  if (disabled_) return;
  --in_flight_;
  if (!open_ || open_->number != entered) return;
  if (!applied) {
    ForgetLocked();
    return;
  }
  if (--open_->tables_left == 0) dropped = Close();
}

std::vector<LoggedInsert> UpdateLog::Close() {
  bytes_ += open_->insert.bytes();
  inserts_.push_back(std::move(open_->insert));
  open_.reset();
  const size_t limit = budget_->bytes_per_log();
  std::vector<LoggedInsert> dropped;
  while (bytes_ > limit) {
    bytes_ -= inserts_.front().bytes();
    dropped.push_back(std::move(inserts_.front()));
    inserts_.pop_front();
  }
  return dropped;
}

void UpdateLog::ForgetLocked() {
  open_.reset();
  inserts_.clear();
  bytes_ = 0;
}

void UpdateLog::Forget() {
  MutexLock lock(&mu_);
  ForgetLocked();
}

void UpdateLog::Disable() {
  MutexLock lock(&mu_);
  ForgetLocked();
  disabled_ = true;
}

TakenInserts UpdateLog::Take() {
  MutexLock lock(&mu_);
  if (open_) ForgetLocked();
  TakenInserts taken(budget_, std::move(inserts_));
  ForgetLocked();
  return taken;
}

}  // namespace adaptcp
