// SPDX-License-Identifier: Apache-2.0
// Codec of key records.

#include "custom_ops/format/key_record.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace adaptcp {
namespace {

constexpr std::string_view kKeyRecordMagic = "K";
// Bits below the row's history that mean nothing yet.
constexpr uint8_t kReservedFlags = ((1 << kRowHistoryShift) - 1) & ~(kRowHot | kRowTombstone);

bool UsesStrings(const RowBlock& block) { return !block.string_keys.empty(); }

bool FitsInt32(int64_t key) {
  return key >= std::numeric_limits<int32_t>::min() && key <= std::numeric_limits<int32_t>::max();
}

// The three checks below serve both sides: what makes a block impossible, as
// "expected ..., found ...", or an empty string.

std::string KeyProblem(const RowBlock& block, KeyType type) {
  for (const std::string& key : block.string_keys) {
    if (key.size() > std::numeric_limits<uint32_t>::max()) {
      return Concat("expected keys shorter than 2^32 bytes, found one of ", key.size());
    }
  }
  if (type != KeyType::kInt32) return "";
  for (const int64_t key : block.keys) {
    if (!FitsInt32(key)) return Concat("expected a key of int32, found ", key);
  }
  return "";
}

std::string FlagProblem(const RowBlock& block, bool tombstones) {
  for (const uint8_t flags : block.flags) {
    if ((flags & kReservedFlags) != 0) {
      return Concat("expected row flags without ", int{kReservedFlags}, ", found ", int{flags});
    }
    if (((flags & kRowTombstone) != 0) != tombstones) {
      return Concat("expected only ", tombstones ? "tombstones" : "rows", " in the block, found a ",
                    tombstones ? "row" : "tombstone");
    }
  }
  return "";
}

std::string ContentProblem(const RowBlock& block, KeyType type, bool tombstones) {
  const std::string problem = KeyProblem(block, type);
  return problem.empty() ? FlagProblem(block, tombstones) : problem;
}

Status CheckLength(const char* what, size_t rows, size_t found) {
  if (rows == found) return Status::OK();
  return InvalidArgument("row block: ", what, ": expected ", rows, " entries, found ", found);
}

Status ValidateColumns(const RowBlock& block, const SegmentHeader& header) {
  const size_t rows = block.rows();
  const size_t expected = HoldsTombstones(block) ? 0 : header.tables.size();
  if (block.columns.size() != expected) {
    return InvalidArgument("row block: expected ", expected, " columns, found ",
                           block.columns.size());
  }
  for (size_t i = 0; i < expected; ++i) {
    const TableColumn& column = block.columns[i];
    const uint64_t value_bytes = uint64_t{header.tables[i].row_bytes} * rows;
    if (column.row_bytes != header.tables[i].row_bytes || column.values.size() < value_bytes ||
        column.present.size() < rows) {
      return InvalidArgument("row block: column ", i, ": expected ", rows, " rows of ",
                             header.tables[i].row_bytes, " bytes, found rows of ", column.row_bytes,
                             " bytes, ", column.values.size(), " bytes and ", column.present.size(),
                             " presence entries");
    }
  }
  return Status::OK();
}

void AppendKeys(const RowBlock& block, std::string* out) {
  if (!UsesStrings(block)) return AppendArray(block.keys, out);
  for (const std::string& key : block.string_keys) {
    AppendInt(static_cast<uint32_t>(key.size()), out);
  }
  for (const std::string& key : block.string_keys) out->append(key);
}

// u8 1, or u8 0 and a bitmap, lowest bit first, when some row is absent.
void AppendPresence(const std::vector<uint8_t>& present, size_t rows, std::string* out) {
  const auto end = present.begin() + static_cast<std::ptrdiff_t>(rows);
  const bool all_present = std::find(present.begin(), end, 0) == end;
  AppendInt(static_cast<uint8_t>(all_present), out);
  if (all_present) return;
  const size_t start = out->size();
  out->append((rows + 7) / 8, '\0');
  for (size_t i = 0; i < rows; ++i) {
    if (present[i] != 0) (*out)[start + i / 8] |= static_cast<char>(1 << (i % 8));
  }
}

Status ReadStringKeys(ByteReader* reader, uint32_t rows, std::vector<std::string>* keys) {
  std::vector<uint32_t> lengths;
  ADAPTCP_RETURN_IF_ERROR(reader->ReadArray("key lengths", rows, &lengths));
  keys->resize(rows);
  for (uint32_t i = 0; i < rows; ++i) {
    std::string_view bytes;
    ADAPTCP_RETURN_IF_ERROR(reader->ReadBytes("string key", lengths[i], &bytes));
    (*keys)[i].assign(bytes);
  }
  return Status::OK();
}

Status ReadPresence(ByteReader* reader, uint32_t rows, std::vector<uint8_t>* present) {
  bool all_present = false;
  ADAPTCP_RETURN_IF_ERROR(reader->ReadBool("all-present flag", &all_present));
  if (all_present) {
    present->assign(rows, 1);
    return Status::OK();
  }
  const Origin origin = reader->here();
  std::string_view bitmap;
  ADAPTCP_RETURN_IF_ERROR(reader->ReadBytes("presence bitmap", (uint64_t{rows} + 7) / 8, &bitmap));
  present->resize(rows);
  for (uint32_t i = 0; i < rows; ++i) (*present)[i] = (bitmap[i / 8] >> (i % 8)) & 1;
  if (rows % 8 != 0 && (static_cast<uint8_t>(bitmap.back()) >> (rows % 8)) != 0) {
    return Malformed(origin, "presence bitmap", "zero bits after the last row", Quoted(bitmap));
  }
  if (std::find(present->begin(), present->end(), 0) == present->end()) {
    return Malformed(origin, "presence bitmap", "an absent row", "all present");
  }
  return Status::OK();
}

}  // namespace

bool HoldsTombstones(const RowBlock& block) { return (block.flags[0] & kRowTombstone) != 0; }

Status ValidateRowBlock(const RowBlock& block, const SegmentHeader& header) {
  const size_t rows = block.rows();
  if (rows == 0) return InvalidArgument("row block: expected at least one row, found none");
  if (rows > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("row block: expected fewer than 2^32 rows, found ", rows);
  }
  const bool strings = header.key_type == KeyType::kString;
  ADAPTCP_RETURN_IF_ERROR(CheckLength("keys", strings ? 0 : rows, block.keys.size()));
  ADAPTCP_RETURN_IF_ERROR(CheckLength("string keys", strings ? rows : 0, block.string_keys.size()));
  ADAPTCP_RETURN_IF_ERROR(CheckLength("last_updated", rows, block.last_updated.size()));
  ADAPTCP_RETURN_IF_ERROR(CheckLength("rates", rows, block.rates.size()));
  const std::string problem = ContentProblem(block, header.key_type, HoldsTombstones(block));
  if (!problem.empty()) return InvalidArgument("row block: ", problem);
  return ValidateColumns(block, header);
}

void EncodeKeyRecord(const RowBlock& block, uint32_t block_number, std::string* out) {
  out->append(kKeyRecordMagic);
  AppendInt(block_number, out);
  AppendInt(static_cast<uint32_t>(block.rows()), out);
  AppendInt(static_cast<uint8_t>(HoldsTombstones(block)), out);
  AppendKeys(block, out);
  AppendArray(block.last_updated, out);
  AppendArray(block.rates, out);
  AppendArray(block.flags, out);
  for (const TableColumn& column : block.columns) AppendPresence(column.present, block.rows(), out);
}

Status DecodeKeyRecord(std::string_view payload, const Origin& origin, const SegmentHeader& header,
                       uint32_t* block_number, RowBlock* block) {
  ByteReader reader(payload, origin);
  RowBlock decoded;
  uint32_t number = 0;
  uint32_t rows = 0;
  bool tombstones = false;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadMagic("key record", kKeyRecordMagic));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("block number", &number));
  const Origin rows_origin = reader.here();
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("number of rows", &rows));
  if (rows == 0) return Malformed(rows_origin, "number of rows", "at least 1", "0");
  ADAPTCP_RETURN_IF_ERROR(reader.ReadBool("tombstone flag", &tombstones));
  if (header.key_type == KeyType::kString) {
    ADAPTCP_RETURN_IF_ERROR(ReadStringKeys(&reader, rows, &decoded.string_keys));
  } else {
    ADAPTCP_RETURN_IF_ERROR(reader.ReadArray("keys", rows, &decoded.keys));
  }
  ADAPTCP_RETURN_IF_ERROR(reader.ReadArray("last updated", rows, &decoded.last_updated));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadArray("rates", rows, &decoded.rates));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadArray("row flags", rows, &decoded.flags));
  decoded.columns.resize(tombstones ? 0 : header.tables.size());
  for (size_t i = 0; i < decoded.columns.size(); ++i) {
    decoded.columns[i].row_bytes = header.tables[i].row_bytes;
    ADAPTCP_RETURN_IF_ERROR(ReadPresence(&reader, rows, &decoded.columns[i].present));
  }
  ADAPTCP_RETURN_IF_ERROR(reader.ExpectEnd("key record"));
  const std::string problem = ContentProblem(decoded, header.key_type, tombstones);
  if (!problem.empty()) {
    return DataLoss(origin.path, ": offset ", origin.offset, ": key record: ", problem);
  }
  *block_number = number;
  *block = std::move(decoded);
  return Status::OK();
}

}  // namespace adaptcp
