// SPDX-License-Identifier: Apache-2.0
// The first record of a segment: which cut, which table group and shard, which tables.

#ifndef ADAPTCP_FORMAT_SEGMENT_HEADER_H_
#define ADAPTCP_FORMAT_SEGMENT_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "custom_ops/base/status.h"
#include "custom_ops/format/coding.h"

namespace adaptcp {

constexpr uint32_t kFormatVersion = 1;

enum class SegmentKind : uint8_t { kBase = 0, kIncrement = 1, kDifferential = 2 };
enum class KeyType : uint8_t { kInt64 = 0, kInt32 = 1, kString = 2 };
// How the float32 and float64 values of a table are stored. All but kRaw lose bits. kInt...: that
// many bits a value, and the range of the values of each vector.
enum class Encoding : uint8_t {
  kRaw = 0,
  kInt2 = 1,
  kInt3 = 2,
  kInt4 = 3,
  kInt8 = 4,
  kFloat16 = 5,
  kBfloat16 = 6,
};

// The words of the manifest and of file names: "base", "increment", "differential".
const char* SegmentKindName(SegmentKind kind);
// "int64", "int32", "string".
const char* KeyTypeName(KeyType type);
// "raw", "int2", "int3", "int4", "int8", "float16", "bfloat16".
const char* EncodingName(Encoding encoding);
// Bytes of one element of a value dtype by its TensorFlow name ("float32"); 0 when rows of that
// dtype cannot be stored.
uint32_t DtypeBytes(std::string_view dtype);

// One table of the group: the parameter table or a slot table.
struct TableSpec {
  std::string name;
  std::string dtype;
  uint32_t dim = 0;
  uint32_t row_bytes = 0;     // dim * DtypeBytes(dtype)
  std::string initial_value;  // row_bytes: the row of a key that this table does not hold

  bool operator==(const TableSpec& other) const;
};

struct SegmentHeader {
  SegmentKind kind = SegmentKind::kBase;
  uint64_t interval = 0;  // the cut
  uint32_t shard = 0;
  uint32_t num_shards = 1;
  KeyType key_type = KeyType::kInt64;
  Encoding encoding = Encoding::kRaw;       // of the first table, the parameter
  Encoding slot_encoding = Encoding::kRaw;  // of the others
  std::string group;
  std::vector<TableSpec> tables;

  Encoding EncodingOf(size_t table) const { return table == 0 ? encoding : slot_encoding; }

  bool operator==(const SegmentHeader& other) const;
  std::string DebugString() const;
};

// InvalidArgument when no segment could have this header.
Status ValidateSegmentHeader(const SegmentHeader& header);

// Appends the payload of the header record. `header` must be valid.
void EncodeSegmentHeader(const SegmentHeader& header, std::string* out);

// DataLoss on anything EncodeSegmentHeader could not have written.
Status DecodeSegmentHeader(std::string_view payload, const Origin& origin, SegmentHeader* header);

}  // namespace adaptcp

#endif  // ADAPTCP_FORMAT_SEGMENT_HEADER_H_
