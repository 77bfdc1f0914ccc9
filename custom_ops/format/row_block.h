// SPDX-License-Identifier: Apache-2.0
// Rows in memory, column by column: what one key record and its value records hold.

#ifndef ADAPTCP_FORMAT_ROW_BLOCK_H_
#define ADAPTCP_FORMAT_ROW_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace adaptcp {

enum RowFlags : uint8_t {
  kRowHot = 1,        // belongs to the differential class
  kRowTombstone = 2,  // the key was removed; the row has no values
};
// The upper bits of a row's flags: over how many intervals its rate was averaged, saturating.
constexpr int kRowHistoryShift = 3;

// One table's rows of a block: `present[i]` is 1 when the table holds the key, and then
// `values[i * row_bytes, (i + 1) * row_bytes)` is its vector. Absent rows' bytes are zero.
struct TableColumn {
  uint32_t row_bytes = 0;
  std::vector<char> values;
  std::vector<uint8_t> present;

  bool operator==(const TableColumn& other) const {
    return row_bytes == other.row_bytes && values == other.values && present == other.present;
  }
};

// Parallel arrays of the same length. Exactly one of `keys` and `string_keys` is used, by the
// segment's key type (int32 keys are widened). A block holds either rows or tombstones, never both;
// tombstone blocks have no columns.
struct RowBlock {
  std::vector<int64_t> keys;
  std::vector<std::string> string_keys;
  std::vector<uint32_t> last_updated;  // interval of the newest update
  std::vector<uint16_t> rates;         // update probability per interval, as a fraction of 65535
  std::vector<uint8_t> flags;          // RowFlags
  std::vector<TableColumn> columns;

  size_t rows() const { return flags.size(); }

  bool operator==(const RowBlock& other) const {
    return keys == other.keys && string_keys == other.string_keys &&
           last_updated == other.last_updated && rates == other.rates && flags == other.flags &&
           columns == other.columns;
  }
};

}  // namespace adaptcp

#endif  // ADAPTCP_FORMAT_ROW_BLOCK_H_
