// SPDX-License-Identifier: Apache-2.0
// A hash table in memory for tests, which fails on demand and notices reads that race with writes.

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

// Safe for concurrent use.
class MemoryTable : public Table {
 public:
  explicit MemoryTable(const TableSpec& spec) : spec_(spec) {}

  const TableSpec& spec() const override { return spec_; }
  Status Read(const int64_t* keys, size_t n, char* values, uint8_t* present) override;
  Status Write(const int64_t* keys, size_t n, const char* values) override;

  // Absent keys are fine.
  Status Remove(const int64_t* keys, size_t n);
  void Clear();

  // A write outside of any update of a table group, like TFRA's accumulate: a read may race with it.
  void WriteOutsideUpdate(const int64_t* keys, size_t n, const char* values);

  // Faults: `nth` - 1 more calls succeed, then one fails and changes nothing.
  void FailNthRead(int nth, const Status& status);
  void FailNthWrite(int nth, const Status& status);
  void ClearFaults();

  // How often a row was read while Write or Remove changed it, or the reverse. The protocol between
  // updates and cuts promises that this never happens, whatever the table's own locks.
  int races();
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
  };

  static Status Enter(Fault* fault);
  // Announces n rows, and takes them back. Between the two the mutex is free for a while, so that
  // a call that should not overlap has the time to.
  void Begin(const int64_t* keys, size_t n, int Users::*role) TF_LOCKS_EXCLUDED(mu_);
  void End(const int64_t* keys, size_t n, int Users::*role) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Put(const int64_t* keys, size_t n, const char* values) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const TableSpec spec_;

  Mutex mu_;
  std::unordered_map<int64_t, std::string> rows_ TF_GUARDED_BY(mu_);
  std::unordered_map<int64_t, Users> users_ TF_GUARDED_BY(mu_);
  int races_ TF_GUARDED_BY(mu_) = 0;
  uint64_t rows_read_ TF_GUARDED_BY(mu_) = 0;
  Fault read_fault_ TF_GUARDED_BY(mu_);
  Fault write_fault_ TF_GUARDED_BY(mu_);
};

}  // namespace adaptcp

#endif  // ADAPTCP_TESTING_MEMORY_TABLE_H_
