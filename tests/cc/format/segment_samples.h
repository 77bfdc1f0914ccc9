// SPDX-License-Identifier: Apache-2.0
// Headers and blocks for the tests of the format and of what reads and writes it.

#ifndef ADAPTCP_TESTS_CC_FORMAT_SEGMENT_SAMPLES_H_
#define ADAPTCP_TESTS_CC_FORMAT_SEGMENT_SAMPLES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "custom_ops/base/status.h"
#include "custom_ops/format/row_block.h"
#include "custom_ops/format/segment_header.h"

namespace adaptcp {

#define EXPECT_OK(expr)                                      \
  do {                                                       \
    const ::adaptcp::Status _ok = (expr);                    \
    EXPECT_TRUE(_ok.ok()) << #expr << ": " << _ok.message(); \
  } while (false)

#define ASSERT_OK(expr)                                      \
  do {                                                       \
    const ::adaptcp::Status _ok = (expr);                    \
    ASSERT_TRUE(_ok.ok()) << #expr << ": " << _ok.message(); \
  } while (false)

// Expects a failure of that code whose message holds `text`.
inline void ExpectFailure(const Status& status, StatusCode code, const std::string& text) {
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code)) << status.message();
  EXPECT_NE(status.message().find(text), std::string::npos)
      << "expected \"" << text << "\" in \"" << status.message() << "\"";
}

inline TableSpec MakeTable(const std::string& name, const std::string& dtype, uint32_t dim) {
  TableSpec table;
  table.name = name;
  table.dtype = dtype;
  table.dim = dim;
  table.row_bytes = dim * DtypeBytes(dtype);
  table.initial_value.assign(table.row_bytes, 'i');
  return table;
}

// A parameter table of 3 floats and a slot of one bfloat16.
inline SegmentHeader MakeHeader(KeyType key_type = KeyType::kInt64) {
  SegmentHeader header;
  header.kind = SegmentKind::kIncrement;
  header.interval = 7;
  header.shard = 1;
  header.num_shards = 2;
  header.key_type = key_type;
  header.group = "user_embedding";
  header.tables = {MakeTable("parameter", "float32", 3), MakeTable("m", "bfloat16", 1)};
  return header;
}

class BlockMaker {
 public:
  explicit BlockMaker(SegmentHeader header, uint32_t seed = 1)
      : header_(std::move(header)), random_(seed) {}

  // Rows of random content. With `holes` about a fifth of them are absent from each table.
  RowBlock Rows(size_t rows, bool holes = true) {
    RowBlock block = Keys(rows, 0);
    for (const TableSpec& table : header_.tables) {
      TableColumn column;
      column.row_bytes = table.row_bytes;
      for (size_t i = 0; i < rows; ++i) {
        const bool present = !holes || random_() % 5 != 0;
        column.present.push_back(present);
        for (uint32_t byte = 0; byte < table.row_bytes; ++byte) {
          column.values.push_back(present ? static_cast<char>(random_()) : '\0');
        }
      }
      block.columns.push_back(column);
    }
    return block;
  }

  RowBlock Tombstones(size_t rows) { return Keys(rows, kRowTombstone); }

 private:
  RowBlock Keys(size_t rows, uint8_t flags) {
    RowBlock block;
    for (size_t i = 0; i < rows; ++i) {
      const uint64_t bits = (uint64_t{random_()} << 32) | random_();
      if (header_.key_type == KeyType::kString) {
        block.string_keys.push_back(std::string(bits % 20, static_cast<char>(bits >> 8)));
      } else if (header_.key_type == KeyType::kInt32) {
        block.keys.push_back(static_cast<int32_t>(bits));
      } else {
        block.keys.push_back(static_cast<int64_t>(bits));
      }
      block.last_updated.push_back(random_() % 8);
      block.rates.push_back(static_cast<uint16_t>(random_()));
      const uint8_t history = static_cast<uint8_t>((random_() % 32) << kRowHistoryShift);
      block.flags.push_back(flags | history | (random_() % 2 != 0 ? kRowHot : 0));
    }
    return block;
  }

  const SegmentHeader header_;
  std::mt19937 random_;
};

inline RowBlock WithoutValues(RowBlock block) {
  for (TableColumn& column : block.columns) column.values.clear();
  return block;
}

inline std::string RandomBytes(size_t size, std::mt19937* random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

inline std::string FlippedAt(std::string bytes, size_t position, uint8_t bits = 0xff) {
  bytes[position] = static_cast<char>(bytes[position] ^ bits);
  return bytes;
}

}  // namespace adaptcp

#endif  // ADAPTCP_TESTS_CC_FORMAT_SEGMENT_SAMPLES_H_
