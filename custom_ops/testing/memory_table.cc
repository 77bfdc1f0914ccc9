// SPDX-License-Identifier: Apache-2.0
// The in-memory table for tests.

#include "custom_ops/testing/memory_table.h"

#include <cstring>
#include <thread>

namespace adaptcp {

Status MemoryTable::Read(const int64_t* keys, size_t n, char* values, uint8_t* present) {
  {
    MutexLock lock(&mu_);
    ADAPTCP_RETURN_IF_ERROR(Enter(&read_fault_));
    rows_read_ += n;
  }
  Begin(keys, n, &Users::readers);
  PauseIfAsked();
  MutexLock lock(&mu_);
  for (size_t i = 0; i < n; ++i) ReadRow(keys[i], values + i * spec_.row_bytes, &present[i]);
  End(keys, n, &Users::readers);
  return Status::OK();
}

void MemoryTable::ReadRow(int64_t key, char* value, uint8_t* present) {
  constexpr char kTornByte = 0x5e;
  const auto row = rows_.find(key);
  const bool torn = users_.at(key).torn;
  *present = torn ? key % 2 != 0 : row != rows_.end();
  if (!*present) {
    std::memset(value, 0, spec_.row_bytes);
  } else if (torn) {
    std::memset(value, kTornByte, spec_.row_bytes);
  } else {
    std::memcpy(value, row->second.data(), spec_.row_bytes);
  }
}

Status MemoryTable::Write(const int64_t* keys, size_t n, const char* values) {
  {
    MutexLock lock(&mu_);
    ADAPTCP_RETURN_IF_ERROR(Enter(&write_fault_));
  }
  Begin(keys, n, &Users::writers);
  MutexLock lock(&mu_);
  Put(keys, n, values);
  End(keys, n, &Users::writers);
  return Status::OK();
}

size_t MemoryTable::Size() {
  MutexLock lock(&mu_);
  return rows_.size();
}

Status MemoryTable::Remove(const int64_t* keys, size_t n) {
  {
    MutexLock lock(&mu_);
    ADAPTCP_RETURN_IF_ERROR(Enter(&write_fault_));
  }
  Begin(keys, n, &Users::writers);
  MutexLock lock(&mu_);
  for (size_t i = 0; i < n; ++i) rows_.erase(keys[i]);
  End(keys, n, &Users::writers);
  return Status::OK();
}

void MemoryTable::Clear() {
  MutexLock lock(&mu_);
  rows_.clear();
}

void MemoryTable::WriteOutsideUpdate(const int64_t* keys, size_t n, const char* values) {
  MutexLock lock(&mu_);
  Put(keys, n, values);
}

void MemoryTable::FailNthRead(int nth, const Status& status) {
  MutexLock lock(&mu_);
  read_fault_ = Fault{nth - 1, status};
}

void MemoryTable::FailNthWrite(int nth, const Status& status) {
  MutexLock lock(&mu_);
  write_fault_ = Fault{nth - 1, status};
}

void MemoryTable::ClearFaults() {
  MutexLock lock(&mu_);
  read_fault_ = Fault();
  write_fault_ = Fault();
}

void MemoryTable::PauseNextRead() {
  MutexLock lock(&mu_);
  pause_ = Pause::kNextRead;
}

void MemoryTable::AwaitPausedRead() {
  MutexLock lock(&mu_);
  while (pause_ != Pause::kPaused) pause_changed_.Wait(&mu_);
}

void MemoryTable::ResumeRead() {
  MutexLock lock(&mu_);
  pause_ = Pause::kNone;
  pause_changed_.SignalAll();
}

void MemoryTable::PauseIfAsked() {
  MutexLock lock(&mu_);
  if (pause_ != Pause::kNextRead) return;
  pause_ = Pause::kPaused;
  pause_changed_.SignalAll();
  while (pause_ == Pause::kPaused) pause_changed_.Wait(&mu_);
}

uint64_t MemoryTable::rows_read() {
  MutexLock lock(&mu_);
  return rows_read_;
}

std::map<int64_t, std::string> MemoryTable::Rows() {
  MutexLock lock(&mu_);
  return std::map<int64_t, std::string>(rows_.begin(), rows_.end());
}

Status MemoryTable::Enter(Fault* fault) {
  if (fault->status.ok() || fault->successes_left-- > 0) return Status::OK();
  const Status failure = fault->status;
  *fault = Fault();
  return failure;
}

void MemoryTable::Begin(const int64_t* keys, size_t n, int Users::*role) {
  {
    MutexLock lock(&mu_);
    for (size_t i = 0; i < n; ++i) {
      Users& users = users_[keys[i]];
      ++(users.*role);
      users.torn |= users.readers > 0 && users.writers > 0;
    }
  }
  std::this_thread::yield();
}

void MemoryTable::End(const int64_t* keys, size_t n, int Users::*role) {
  for (size_t i = 0; i < n; ++i) {
    const auto users = users_.find(keys[i]);
    --(users->second.*role);
    if (users->second.readers == 0 && users->second.writers == 0) users_.erase(users);
  }
}

void MemoryTable::Put(const int64_t* keys, size_t n, const char* values) {
  for (size_t i = 0; i < n; ++i) {
    rows_[keys[i]].assign(values + i * spec_.row_bytes, spec_.row_bytes);
  }
}

}  // namespace adaptcp
