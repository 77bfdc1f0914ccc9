// SPDX-License-Identifier: Apache-2.0
// Keeps the latest inserts of a table group by reference, so that a cut can copy rows from them
// instead of finding each again in every table, which costs a cache miss a step.

#ifndef ADAPTCP_ENGINE_UPDATE_LOG_H_
#define ADAPTCP_ENGINE_UPDATE_LOG_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/engine/key_batch.h"

namespace adaptcp {

// The rows that an insert gives one table, laid out like those of Table::Read. `owner` keeps them
// alive and unchanged as long as it is held.
struct RowValues {
  const char* values = nullptr;
  size_t bytes = 0;
  std::shared_ptr<const void> owner;
};

// One batch of keys, inserted into every table of the group.
struct LoggedInsert {
  KeyBatch batch;
  std::vector<RowValues> tables;

  size_t bytes() const;
};

// Memory that the logs of the process, and what cuts took from them, share. What no cut holds is
// for the logs, in equal parts.
class UpdateLogBudget {
 public:
  explicit UpdateLogBudget(size_t bytes) : bytes_(bytes) {}

  // The one that the kernels use: 128 MiB.
  static UpdateLogBudget* Process();

  void AddLog() { ++logs_; }
  void RemoveLog() { --logs_; }
  void Lend(size_t bytes) { lent_ += bytes; }
  void TakeBack(size_t bytes) { lent_ -= bytes; }
  size_t bytes_per_log() const {
    return (bytes_ - std::min(bytes_, lent_.load())) / std::max<size_t>(1, logs_.load());
  }

 private:
  const size_t bytes_;
  std::atomic<size_t> logs_{0};
  std::atomic<size_t> lent_{0};
};

// Inserts that a log gave away, lent from its budget until each was used. For one thread.
class TakenInserts {
 public:
  // `budget` outlives them.
  TakenInserts(UpdateLogBudget* budget, std::deque<LoggedInsert> inserts);
  ~TakenInserts();
  TakenInserts(TakenInserts&& other);
  TakenInserts& operator=(TakenInserts&&) = delete;

  // Frees the insert it returned last, and returns the newest that is left; nullptr at the end.
  const LoggedInsert* Next();

 private:
  void FreeNewest();

  UpdateLogBudget* const budget_;
  std::deque<LoggedInsert> inserts_;
  bool newest_is_out_ = false;
};

// The end of the group's history of updates, without a gap: for each key in it, the newest insert
// that holds the key says what the tables hold. To keep that true, whatever cannot be logged makes
// the log forget all that came before: a removal, an insert into some of the tables only, updates
// that overlap in time (the tables may have taken them in another order), and too large an insert.
//
// Thread-safe. Callers bracket each update with Enter and Leave, and take no other lock in between.
class UpdateLog {
 public:
  // An update that the log does not hold.
  static constexpr uint64_t kUnlogged = 0;

  explicit UpdateLog(UpdateLogBudget* budget) : budget_(budget) { budget_->AddLog(); }
  ~UpdateLog() { budget_->RemoveLog(); }
  UpdateLog(const UpdateLog&) = delete;
  UpdateLog& operator=(const UpdateLog&) = delete;

  // Before an insert into table number `table` of `num_tables`; returns what Leave must be given.
  uint64_t EnterInsert(const KeyBatch& batch, size_t table, size_t num_tables,
                       const RowValues& values) TF_LOCKS_EXCLUDED(mu_);
  // Before any other update.
  uint64_t EnterOther() TF_LOCKS_EXCLUDED(mu_);
  // After the update, which did not change the table unless `applied`.
  void Leave(uint64_t entered, bool applied) TF_LOCKS_EXCLUDED(mu_);

  // Starts afresh after a change of whole tables, with no update in flight.
  void Forget() TF_LOCKS_EXCLUDED(mu_);
  // Logs nothing from now on: tables are changed at instants that the log does not see.
  void Disable() TF_LOCKS_EXCLUDED(mu_);

  // Hands over the inserts. No update may be in flight.
  TakenInserts Take() TF_LOCKS_EXCLUDED(mu_);

 private:
  // An insert that has not reached all tables yet. No other update is in flight: the next that
  // enters drops it.
  struct Open {
    Open(uint64_t number, const KeyBatch& batch, size_t num_tables)
        : number(number),
          insert{batch, std::vector<RowValues>(num_tables)},
          tables_left(num_tables) {}

    const uint64_t number;
    LoggedInsert insert;
    size_t tables_left;
  };

  bool JoinsOpen(const KeyBatch& batch, size_t table) const TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns what no longer fits, to be freed without the mutex.
  std::vector<LoggedInsert> Close() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetLocked() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  UpdateLogBudget* const budget_;

  Mutex mu_;
  bool disabled_ TF_GUARDED_BY(mu_) = false;
  // Updates between Enter and Leave, those of `open_` included.
  size_t in_flight_ TF_GUARDED_BY(mu_) = 0;
  uint64_t next_number_ TF_GUARDED_BY(mu_) = kUnlogged + 1;
  std::optional<Open> open_ TF_GUARDED_BY(mu_);
  std::deque<LoggedInsert> inserts_ TF_GUARDED_BY(mu_);
  size_t bytes_ TF_GUARDED_BY(mu_) = 0;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_UPDATE_LOG_H_
