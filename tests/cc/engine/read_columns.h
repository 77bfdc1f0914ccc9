// SPDX-License-Identifier: Apache-2.0
// The values of a block as the columns that were written.

#ifndef ADAPTCP_TESTS_CC_ENGINE_READ_COLUMNS_H_
#define ADAPTCP_TESTS_CC_ENGINE_READ_COLUMNS_H_

#include "custom_ops/engine/segment_reader.h"

namespace adaptcp {

// Fills the values of `block`, which ReadKeys has read.
inline Status ReadColumns(const SegmentReader& reader, size_t b, RowBlock* block) {
  BlockValues values;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadValues(b, block->columns.size(), &values));
  for (size_t t = 0; t < block->columns.size(); ++t) {
    TableColumn* const column = &block->columns[t];
    column->values.assign(values.rows[t], values.rows[t] + block->rows() * column->row_bytes);
  }
  return Status::OK();
}

}  // namespace adaptcp

#endif  // ADAPTCP_TESTS_CC_ENGINE_READ_COLUMNS_H_
