// SPDX-License-Identifier: Apache-2.0
// The engine's view of one hash table of a table group.

#ifndef ADAPTCP_ENGINE_TABLE_H_
#define ADAPTCP_ENGINE_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "custom_ops/base/status.h"
#include "custom_ops/format/segment_header.h"

namespace adaptcp {

// Implemented over LookupInterface by the kernels and in memory by the tests. Safe for concurrent
// calls: what Read returns for a row that is written meanwhile is dropped, so it may be old, new or
// torn. No call may wait for a thread pool, since the engine calls Read under a stripe's mutex.
class Table {
 public:
  virtual ~Table() = default;

  virtual const TableSpec& spec() const = 0;

  // Fills `values` (n * spec().row_bytes) and `present` (n); rows of absent keys become zero bytes.
  virtual Status Read(const int64_t* keys, size_t n, char* values, uint8_t* present) = 0;

  // Inserts or replaces n rows, laid out like Read's.
  virtual Status Write(const int64_t* keys, size_t n, const char* values) = 0;

  // Rows, as far as can be told while others write.
  virtual size_t Size() = 0;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_TABLE_H_
