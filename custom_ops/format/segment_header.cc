// SPDX-License-Identifier: Apache-2.0
// Codec of the header record.

#include "custom_ops/format/segment_header.h"

#include <sstream>
#include <tuple>

namespace adaptcp {
namespace {

constexpr std::string_view kHeaderMagic = "ADAPTCP1";

// Reads a one-byte enumeration whose values run from 0 to `last`.
template <typename Enum>
Status ReadEnum(ByteReader* reader, const char* what, Enum last, Enum* value) {
  const Origin origin = reader->here();
  uint8_t byte = 0;
  ADAPTCP_RETURN_IF_ERROR(reader->ReadInt(what, &byte));
  if (byte > static_cast<uint8_t>(last)) {
    return Malformed(origin, what, Concat("at most ", static_cast<int>(last)), Concat(int{byte}));
  }
  *value = static_cast<Enum>(byte);
  return Status::OK();
}

// One byte: the first table's encoding in the lower half, that of the others in the upper half.
constexpr int kSlotEncodingShift = 4;

uint8_t PackEncodings(const SegmentHeader& header) {
  return static_cast<uint8_t>(static_cast<uint8_t>(header.encoding) |
                              static_cast<uint8_t>(header.slot_encoding) << kSlotEncodingShift);
}

Status ReadEncodings(ByteReader* reader, SegmentHeader* header) {
  constexpr auto kLast = static_cast<uint8_t>(Encoding::kBfloat16);
  const Origin origin = reader->here();
  uint8_t byte = 0;
  ADAPTCP_RETURN_IF_ERROR(reader->ReadInt("encoding", &byte));
  const uint8_t first = byte & ((1 << kSlotEncodingShift) - 1);
  const uint8_t others = byte >> kSlotEncodingShift;
  if (first > kLast || others > kLast) {
    return Malformed(origin, "encoding", Concat("at most ", int{kLast}, " for each half"),
                     Concat(int{first}, " and ", int{others}));
  }
  header->encoding = static_cast<Encoding>(first);
  header->slot_encoding = static_cast<Encoding>(others);
  return Status::OK();
}

Status ReadVersion(ByteReader* reader) {
  const Origin origin = reader->here();
  uint32_t version = 0;
  ADAPTCP_RETURN_IF_ERROR(reader->ReadInt("format version", &version));
  if (version == kFormatVersion) return Status::OK();
  return Malformed(origin, "format version", Concat(kFormatVersion), Concat(version));
}

Status ReadTable(ByteReader* reader, TableSpec* table) {
  ADAPTCP_RETURN_IF_ERROR(reader->ReadString("table name", &table->name));
  ADAPTCP_RETURN_IF_ERROR(reader->ReadString("dtype", &table->dtype));
  ADAPTCP_RETURN_IF_ERROR(reader->ReadInt("dim", &table->dim));
  ADAPTCP_RETURN_IF_ERROR(reader->ReadInt("row bytes", &table->row_bytes));
  std::string_view initial_value;
  ADAPTCP_RETURN_IF_ERROR(reader->ReadBytes("initial value", table->row_bytes, &initial_value));
  table->initial_value.assign(initial_value);
  return Status::OK();
}

std::string TableProblem(const TableSpec& table) {
  const std::string subject = Concat("table ", Quoted(table.name), ": ");
  const uint64_t row_bytes = uint64_t{table.dim} * DtypeBytes(table.dtype);
  if (DtypeBytes(table.dtype) == 0) {
    return Concat(subject, "expected a dtype of fixed width, found ", Quoted(table.dtype));
  }
  if (table.dim == 0) return Concat(subject, "expected a dim of at least 1, found 0");
  if (table.row_bytes != row_bytes) {
    return Concat(subject, "expected ", row_bytes, " bytes a row for ", table.dim, " x ",
                  table.dtype, ", found ", table.row_bytes);
  }
  if (table.initial_value.size() != table.row_bytes) {
    return Concat(subject, "expected an initial value of ", table.row_bytes, " bytes, found ",
                  table.initial_value.size());
  }
  return "";
}

// What makes a header impossible, as "expected ..., found ..."; empty for a good one.
std::string HeaderProblem(const SegmentHeader& header) {
  if (header.shard >= header.num_shards) {
    return Concat("expected a shard below ", header.num_shards, ", found ", header.shard);
  }
  if (header.tables.empty()) return "expected at least one table, found none";
  for (const TableSpec& table : header.tables) {
    const std::string problem = TableProblem(table);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace

const char* SegmentKindName(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::kBase:
      return "base";
    case SegmentKind::kIncrement:
      return "increment";
    case SegmentKind::kDifferential:
      return "differential";
  }
  return "unknown";
}

const char* KeyTypeName(KeyType type) {
  switch (type) {
    case KeyType::kInt64:
      return "int64";
    case KeyType::kInt32:
      return "int32";
    case KeyType::kString:
      return "string";
  }
  return "unknown";
}

const char* EncodingName(Encoding encoding) {
  switch (encoding) {
    case Encoding::kRaw:
      return "raw";
    case Encoding::kInt2:
      return "int2";
    case Encoding::kInt3:
      return "int3";
    case Encoding::kInt4:
      return "int4";
    case Encoding::kInt8:
      return "int8";
    case Encoding::kFloat16:
      return "float16";
    case Encoding::kBfloat16:
      return "bfloat16";
  }
  return "unknown";
}

uint32_t DtypeBytes(std::string_view dtype) {
  if (dtype == "float64" || dtype == "int64") return 8;
  if (dtype == "float32" || dtype == "int32") return 4;
  if (dtype == "float16" || dtype == "bfloat16") return 2;
  if (dtype == "int8" || dtype == "bool") return 1;
  return 0;
}

bool TableSpec::operator==(const TableSpec& other) const {
  return std::tie(name, dtype, dim, row_bytes, initial_value) ==
         std::tie(other.name, other.dtype, other.dim, other.row_bytes, other.initial_value);
}

bool SegmentHeader::operator==(const SegmentHeader& other) const {
  return std::tie(kind, interval, shard, num_shards, key_type, encoding, slot_encoding, group,
                  tables) == std::tie(other.kind, other.interval, other.shard, other.num_shards,
                                      other.key_type, other.encoding, other.slot_encoding,
                                      other.group, other.tables);
}

std::string SegmentHeader::DebugString() const {
  std::ostringstream out;
  out << SegmentKindName(kind) << " at cut " << interval << ", group " << Quoted(group)
      << ", shard " << shard << " of " << num_shards << ", " << KeyTypeName(key_type) << " keys";
  for (const TableSpec& table : tables) {
    out << ", " << Quoted(table.name) << " " << table.dim << " x " << table.dtype;
  }
  if (encoding != Encoding::kRaw || slot_encoding != Encoding::kRaw) {
    out << ", encoded as " << EncodingName(encoding) << " and " << EncodingName(slot_encoding);
  }
  return out.str();
}

Status ValidateSegmentHeader(const SegmentHeader& header) {
  const std::string problem = HeaderProblem(header);
  return problem.empty() ? Status::OK() : InvalidArgument("segment header: ", problem);
}

void EncodeSegmentHeader(const SegmentHeader& header, std::string* out) {
  out->append(kHeaderMagic);
  AppendInt(kFormatVersion, out);
  AppendInt(static_cast<uint8_t>(header.kind), out);
  AppendInt(header.interval, out);
  AppendInt(header.shard, out);
  AppendInt(header.num_shards, out);
  AppendInt(static_cast<uint8_t>(header.key_type), out);
  AppendInt(PackEncodings(header), out);
  AppendString(header.group, out);
  AppendInt(static_cast<uint32_t>(header.tables.size()), out);
  for (const TableSpec& table : header.tables) {
    AppendString(table.name, out);
    AppendString(table.dtype, out);
    AppendInt(table.dim, out);
    AppendInt(table.row_bytes, out);
    out->append(table.initial_value);
  }
}

Status DecodeSegmentHeader(std::string_view payload, const Origin& origin, SegmentHeader* header) {
  ByteReader reader(payload, origin);
  SegmentHeader decoded;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadMagic("segment magic", kHeaderMagic));
  ADAPTCP_RETURN_IF_ERROR(ReadVersion(&reader));
  ADAPTCP_RETURN_IF_ERROR(
      ReadEnum(&reader, "segment kind", SegmentKind::kDifferential, &decoded.kind));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("interval", &decoded.interval));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("shard", &decoded.shard));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("number of shards", &decoded.num_shards));
  ADAPTCP_RETURN_IF_ERROR(ReadEnum(&reader, "key type", KeyType::kString, &decoded.key_type));
  ADAPTCP_RETURN_IF_ERROR(ReadEncodings(&reader, &decoded));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadString("group name", &decoded.group));
  uint32_t num_tables = 0;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("number of tables", &num_tables));
  // Not reserved: the count is not to be believed before that many tables were read.
  for (uint32_t i = 0; i < num_tables; ++i) {
    TableSpec table;
    ADAPTCP_RETURN_IF_ERROR(ReadTable(&reader, &table));
    decoded.tables.push_back(std::move(table));
  }
  ADAPTCP_RETURN_IF_ERROR(reader.ExpectEnd("segment header"));
  const std::string problem = HeaderProblem(decoded);
  if (!problem.empty()) {
    return DataLoss(origin.path, ": offset ", origin.offset, ": segment header: ", problem);
  }
  *header = std::move(decoded);
  return Status::OK();
}

}  // namespace adaptcp
