// SPDX-License-Identifier: Apache-2.0
// The segments of a checkpoint, as its manifest would list them, and what they hold.

#ifndef ADAPTCP_TESTS_CC_ENGINE_CHAIN_H_
#define ADAPTCP_TESTS_CC_ENGINE_CHAIN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "custom_ops/engine/cut.h"
#include "custom_ops/engine/restorer.h"
#include "custom_ops/engine/segment_reader.h"
#include "custom_ops/testing/memory_file_system.h"
#include "tests/cc/engine/read_columns.h"
#include "tests/cc/format/segment_samples.h"

namespace adaptcp {

// Tests tell the values of a row by version numbers: for each table the version of the row, kAbsent
// where the table has none, kGarbled where the bytes are of no version or of another key or table.
using Row = std::vector<uint32_t>;
using Rows = std::map<int64_t, Row>;
constexpr uint32_t kAbsent = 0;
constexpr uint32_t kGarbled = ~uint32_t{0};

inline std::string ValueOf(int64_t key, size_t table, uint32_t version, size_t row_bytes) {
  std::string value(row_bytes, '\0');
  const uint64_t mixed = (static_cast<uint64_t>(key) + 1) * UINT64_C(0x9e3779b97f4a7c15) + table;
  const auto salt = static_cast<uint32_t>(mixed >> 32) ^ static_cast<uint32_t>(mixed);
  uint32_t word = version;
  for (size_t i = 0; i < row_bytes; i += sizeof(word)) {
    std::memcpy(&value[i], &word, std::min(sizeof(word), row_bytes - i));
    word = (word ^ salt) * 2654435761u + 1;
  }
  return value;
}

inline uint32_t VersionOf(int64_t key, size_t table, const std::string& value) {
  uint32_t version;
  if (value.size() < sizeof(version)) return kGarbled;
  std::memcpy(&version, value.data(), sizeof(version));
  return value == ValueOf(key, table, version, value.size()) ? version : kGarbled;
}

inline std::string KeyName(int64_t key) { return Concat("key-", key); }
inline int64_t KeyFromName(const std::string& name) { return std::stoll(name.substr(4)); }

// One row, or tombstone, of a segment.
struct SavedRow {
  SegmentKind kind;
  bool tombstone;
  bool hot;
  uint32_t last_updated;
  uint32_t rate;
  uint32_t history;
  Row row;

  bool operator==(const SavedRow& other) const {
    return std::tie(kind, tombstone, hot, last_updated, rate, history, row) ==
           std::tie(other.kind, other.tombstone, other.hot, other.last_updated, other.rate,
                    other.history, other.row);
  }
};
using SavedRows = std::map<int64_t, SavedRow>;

inline std::ostream& operator<<(std::ostream& out, const SavedRow& saved) {
  out << SegmentKindName(saved.kind) << (saved.tombstone ? " tombstone" : "")
      << (saved.hot ? " hot" : "") << " updated " << saved.last_updated << " rate " << saved.rate
      << " over " << saved.history << ":";
  for (uint32_t version : saved.row) out << " " << version;
  return out;
}

struct Chain {
  uint32_t interval = 0;
  uint32_t shard = 0;
  uint32_t num_shards = 1;
  std::vector<RestoreFile> newest_first;

  // Makes this the chain of the checkpoint after it. A base starts anew; a differential, or its
  // absence, takes the place of the one before.
  void Add(const CutOptions& cut, const std::string& directory,
           const std::vector<WrittenSegment>& segments) {
    interval = cut.interval;
    const auto is_differential = [](const RestoreFile& file) {
      return file.kind == SegmentKind::kDifferential;
    };
    if (cut.base) newest_first.clear();
    newest_first.erase(std::remove_if(newest_first.begin(), newest_first.end(), is_differential),
                       newest_first.end());
    for (const WrittenSegment& segment : segments) {
      newest_first.insert(newest_first.begin(), ToFile(cut, directory, segment));
    }
    std::stable_partition(newest_first.begin(), newest_first.end(), is_differential);
  }

  RestoreFile ToFile(const CutOptions& cut, const std::string& directory,
                     const WrittenSegment& segment) const {
    RestoreFile file;
    file.path = Concat(directory, "/", segment.file_name);
    file.kind = segment.kind;
    file.interval = cut.interval;
    file.shard = shard;
    file.bytes = segment.summary.bytes;
    file.footer_crc = segment.summary.footer_crc;
    return file;
  }
};

// Adds the rows of a segment to `saved`; expects that none of their keys is there yet.
inline void ReadSegment(MemoryFileSystem* files, const std::string& path, SavedRows* saved) {
  std::unique_ptr<SegmentReader> reader;
  ASSERT_OK(SegmentReader::Open(files, path, &reader));
  ASSERT_OK(reader->Verify());
  for (size_t b = 0; b < reader->num_blocks(); ++b) {
    RowBlock block;
    ASSERT_OK(reader->ReadKeys(b, &block));
    ASSERT_OK(ReadColumns(*reader, b, &block));
    for (size_t i = 0; i < block.rows(); ++i) {
      const int64_t key = block.keys.empty() ? KeyFromName(block.string_keys[i]) : block.keys[i];
      SavedRow row{reader->header().kind,
                   (block.flags[i] & kRowTombstone) != 0,
                   (block.flags[i] & kRowHot) != 0,
                   block.last_updated[i],
                   block.rates[i],
                   static_cast<uint32_t>(block.flags[i] >> kRowHistoryShift),
                   {}};
      for (size_t t = 0; t < block.columns.size(); ++t) {
        const TableColumn& column = block.columns[t];
        const std::string value(column.values.data() + i * column.row_bytes, column.row_bytes);
        row.row.push_back(column.present[i] ? VersionOf(key, t, value) : kAbsent);
      }
      EXPECT_TRUE(saved->emplace(key, row).second) << "key " << key << " twice in one cut";
    }
  }
}

}  // namespace adaptcp

#endif  // ADAPTCP_TESTS_CC_ENGINE_CHAIN_H_
