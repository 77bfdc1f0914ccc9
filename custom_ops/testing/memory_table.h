// SPDX-License-Identifier: Apache-2.0
// A hash table in memory for tests, which fails on demand and tears reads that race with writes.

#ifndef ADAPTCP_TESTING_MEMORY_TABLE_H_
#define ADAPTCP_TESTING_MEMORY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "custom_ops/base/mutex.h"
#include "custom_ops/base/status.h"
#include "custom_ops/engine/table.h"

namespace adaptcp {

// Safe for concurrent use. A row that is read while Write or Remove changes it comes out torn: with
// bytes that nobody wrote, or missing. The engine must not let such a row into a cut.
class MemoryTable : public Table {
 public:
  explicit MemoryTable(const TableSpec& spec) : spec_(spec) {}

  const TableSpec& spec() const override { return spec_; }
  Status Read(const int64_t* keys, size_t n, char* values, uint8_t* present) override;
  Status Write(const int64_t* keys, size_t n, const char* values) override;
  size_t Size() override;

  // Absent keys are fine.
  Status Remove(const int64_t* keys, size_t n);
  void Clear();

  // A write outside of any update of a table group, like TFRA's accumulate: tears no read.
  void WriteOutsideUpdate(const int64_t* keys, size_t n, const char* values);

  // Faults: `nth` - 1 more calls succeed, then one fails and changes nothing.
  void FailNthRead(int nth, const Status& status);
  void FailNthWrite(int nth, const Status& status);
  void ClearFaults();

  // Makes the next Read stop half-way, until ResumeRead. Later ones pass it.
  void PauseNextRead();
  void AwaitPausedRead();
  void ResumeRead();

  // Rows that Read was asked for.
  uint64_t rows_read();
  std::map<int64_t, std::string> Rows();

 private:
  struct Fault {
    int successes_left = 0;
    Status status;
  };
  // Calls that are at work on a row.
  struct Users {
    int readers = 0;
    int writers = 0;
    bool torn = false;  // there were some of both
  };
  enum class Pause { kNone, kNextRead, kPaused };

  static Status Enter(Fault* fault);
  // Announces n rows, and takes them back. Between the two the mutex is free for a while, so that
  // calls have the time to overlap.
  void Begin(const int64_t* keys, size_t n, int Users::*role) TF_LOCKS_EXCLUDED(mu_);
  void End(const int64_t* keys, size_t n, int Users::*role) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PauseIfAsked() TF_LOCKS_EXCLUDED(mu_);
  void ReadRow(int64_t key, char* value, uint8_t* present) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Put(const int64_t* keys, size_t n, const char* values) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const TableSpec spec_;

  Mutex mu_;
  std::unordered_map<int64_t, std::string> rows_ TF_GUARDED_BY(mu_);
  std::unordered_map<int64_t, Users> users_ TF_GUARDED_BY(mu_);
  Pause pause_ TF_GUARDED_BY(mu_) = Pause::kNone;
  CondVar pause_changed_;
  uint64_t rows_read_ TF_GUARDED_BY(mu_) = 0;
  Fault read_fault_ TF_GUARDED_BY(mu_);
  Fault write_fault_ TF_GUARDED_BY(mu_);
};

}  // namespace adaptcp

#endif  // ADAPTCP_TESTING_MEMORY_TABLE_H_
