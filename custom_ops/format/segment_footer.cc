// SPDX-License-Identifier: Apache-2.0
// Codec of the footer and trailer records.

#include "custom_ops/format/segment_footer.h"

#include <sstream>
#include <tuple>
#include <utility>

#include "custom_ops/format/crc32c.h"
#include "custom_ops/format/row_codec.h"

namespace adaptcp {
namespace {

constexpr std::string_view kFooterMagic = "F";
constexpr std::string_view kTrailerMagic = "ADAPTEND";

void AppendRef(const RecordRef& ref, std::string* out) {
  AppendInt(ref.offset, out);
  AppendInt(ref.length, out);
  AppendInt(ref.crc, out);
}

Status ReadRef(ByteReader* reader, const char* what, RecordRef* ref) {
  ADAPTCP_RETURN_IF_ERROR(reader->ReadInt(what, &ref->offset));
  ADAPTCP_RETURN_IF_ERROR(reader->ReadInt(what, &ref->length));
  return reader->ReadInt(what, &ref->crc);
}

Status ReadBlock(ByteReader* reader, uint32_t num_tables, BlockIndexEntry* block) {
  ADAPTCP_RETURN_IF_ERROR(reader->ReadInt("rows of a block", &block->rows));
  ADAPTCP_RETURN_IF_ERROR(reader->ReadBool("tombstone flag of a block", &block->tombstones));
  ADAPTCP_RETURN_IF_ERROR(ReadRef(reader, "key record of a block", &block->keys));
  const uint32_t num_values = block->tombstones ? 0 : num_tables;
  // Not reserved: the count is not to be believed before that many entries were read.
  for (uint32_t i = 0; i < num_values; ++i) {
    RecordRef values;
    ADAPTCP_RETURN_IF_ERROR(ReadRef(reader, "value record of a block", &values));
    block->values.push_back(values);
  }
  return Status::OK();
}

Status CheckTotals(const SegmentFooter& footer, const Origin& origin) {
  uint64_t rows = 0;
  uint64_t tombstones = 0;
  for (const BlockIndexEntry& block : footer.blocks) {
    (block.tombstones ? tombstones : rows) += block.rows;
  }
  if (rows == footer.rows && tombstones == footer.tombstones) return Status::OK();
  return Malformed(origin, "totals of the footer",
                   Concat(rows, " rows and ", tombstones, " tombstones"),
                   Concat(footer.rows, " and ", footer.tombstones));
}

// Checks that `ref` starts at `*position` and ends by `limit`, then moves `*position` past it.
Status Follow(const RecordRef& ref, uint64_t limit, const std::string& path, uint64_t* position) {
  const Origin origin{path, *position};
  if (ref.offset != *position) {
    return Malformed(origin, "record named by the footer", Concat("offset ", *position),
                     Concat(ref.offset));
  }
  const uint64_t available = limit - *position;
  if (available < kFrameBytes || ref.length > available - kFrameBytes) {
    return Malformed(origin, "record named by the footer",
                     Concat("at most ", available, " bytes with framing"),
                     Concat(ref.length, " without"));
  }
  *position = ref.end();
  return Status::OK();
}

}  // namespace

bool BlockIndexEntry::operator==(const BlockIndexEntry& other) const {
  return std::tie(rows, tombstones, keys, values) ==
         std::tie(other.rows, other.tombstones, other.keys, other.values);
}

bool SegmentFooter::operator==(const SegmentFooter& other) const {
  return std::tie(num_tables, header, blocks, rows, tombstones) ==
         std::tie(other.num_tables, other.header, other.blocks, other.rows, other.tombstones);
}

std::string SegmentFooter::DebugString() const {
  std::ostringstream out;
  out << rows << " rows and " << tombstones << " tombstones of " << num_tables << " tables in "
      << blocks.size() << " blocks";
  for (const BlockIndexEntry& block : blocks) {
    out << ", [" << block.keys.offset << ", " << block.end() << "): " << block.rows
        << (block.tombstones ? " tombstones" : " rows");
  }
  return out.str();
}

void EncodeSegmentFooter(const SegmentFooter& footer, std::string* out) {
  out->append(kFooterMagic);
  AppendInt(footer.num_tables, out);
  AppendRef(footer.header, out);
  AppendInt(static_cast<uint32_t>(footer.blocks.size()), out);
  for (const BlockIndexEntry& block : footer.blocks) {
    AppendInt(block.rows, out);
    AppendInt(static_cast<uint8_t>(block.tombstones), out);
    AppendRef(block.keys, out);
    for (const RecordRef& values : block.values) AppendRef(values, out);
  }
  AppendInt(footer.rows, out);
  AppendInt(footer.tombstones, out);
}

Status DecodeSegmentFooter(std::string_view payload, const Origin& origin, SegmentFooter* footer) {
  ByteReader reader(payload, origin);
  SegmentFooter decoded;
  uint32_t num_blocks = 0;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadMagic("footer", kFooterMagic));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("number of tables", &decoded.num_tables));
  ADAPTCP_RETURN_IF_ERROR(ReadRef(&reader, "header record", &decoded.header));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("number of blocks", &num_blocks));
  for (uint32_t i = 0; i < num_blocks; ++i) {
    BlockIndexEntry block;
    ADAPTCP_RETURN_IF_ERROR(ReadBlock(&reader, decoded.num_tables, &block));
    decoded.blocks.push_back(std::move(block));
  }
  const Origin totals = reader.here();
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("total of rows", &decoded.rows));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("total of tombstones", &decoded.tombstones));
  ADAPTCP_RETURN_IF_ERROR(reader.ExpectEnd("footer"));
  ADAPTCP_RETURN_IF_ERROR(CheckTotals(decoded, totals));
  *footer = std::move(decoded);
  return Status::OK();
}

Status CheckFooterLayout(const SegmentFooter& footer, const RecordRef& footer_ref,
                         const std::string& path) {
  const uint64_t limit = footer_ref.offset;
  uint64_t position = 0;
  ADAPTCP_RETURN_IF_ERROR(Follow(footer.header, limit, path, &position));
  for (const BlockIndexEntry& block : footer.blocks) {
    ADAPTCP_RETURN_IF_ERROR(Follow(block.keys, limit, path, &position));
    for (const RecordRef& values : block.values) {
      ADAPTCP_RETURN_IF_ERROR(Follow(values, limit, path, &position));
    }
  }
  if (position == limit) return Status::OK();
  return Malformed(Origin{path, position}, "end of the last block", Concat("the footer at ", limit),
                   Concat(limit - position, " bytes unaccounted"));
}

Status CheckFooterFitsHeader(const SegmentFooter& footer, const RecordRef& footer_ref,
                             const SegmentHeader& header, const std::string& path) {
  const Origin origin{path, footer_ref.offset};
  if (footer.num_tables != header.tables.size()) {
    return Malformed(origin, "number of tables in the footer", Concat(header.tables.size()),
                     Concat(footer.num_tables));
  }
  for (const BlockIndexEntry& block : footer.blocks) {
    for (size_t i = 0; i < block.values.size(); ++i) {
      const RecordRef& values = block.values[i];
      const uint64_t row_bytes = RowCodec(header, i).encoded_bytes();
      const uint64_t expected = block.rows * row_bytes;
      if (values.length != expected) {
        return Malformed(Origin{path, values.offset}, "length of a value record",
                         Concat(block.rows, " x ", row_bytes, " bytes"), Concat(values.length));
      }
    }
  }
  return Status::OK();
}

void AppendTrailerRecord(const RecordRef& footer_ref, std::string* out) {
  std::string payload(kTrailerMagic);
  AppendInt(kFormatVersion, &payload);
  AppendInt(footer_ref.crc, &payload);
  AppendInt(footer_ref.offset, &payload);
  AppendInt(footer_ref.length, &payload);
  out->append(FramePrefix(payload.size()));
  out->append(payload);
  out->append(FrameSuffix(crc32c::MaskedValue(payload)));
}

Status DecodeTrailerRecord(std::string_view record, const Origin& origin, RecordRef* footer_ref) {
  if (record.size() != kTrailerRecordBytes) {
    return Malformed(origin, "trailer", Concat(kTrailerRecordBytes, " bytes"),
                     Concat(record.size()));
  }
  // The magic before the framing: of a file cut short, it tells more than a wrong checksum.
  const Origin body{origin.path, origin.offset + kFramePrefixBytes};
  ByteReader reader(record.substr(kFramePrefixBytes, kTrailerRecordBytes - kFrameBytes), body);
  ADAPTCP_RETURN_IF_ERROR(
      reader.ReadMagic("magic of the trailer of a whole segment", kTrailerMagic));
  std::string_view payload;
  ADAPTCP_RETURN_IF_ERROR(DecodeFrame(record, origin, &payload));
  const Origin version_origin = reader.here();
  uint32_t version = 0;
  RecordRef ref;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("format version", &version));
  if (version != kFormatVersion) {
    return Malformed(version_origin, "format version", Concat(kFormatVersion), Concat(version));
  }
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("checksum of the footer", &ref.crc));
  const Origin place = reader.here();
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("offset of the footer", &ref.offset));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("length of the footer", &ref.length));
  if (ref.offset > origin.offset || origin.offset - ref.offset < kFrameBytes ||
      ref.length != origin.offset - ref.offset - kFrameBytes) {
    return Malformed(place, "footer", Concat("an end at offset ", origin.offset),
                     Concat("offset ", ref.offset, " and length ", ref.length));
  }
  *footer_ref = ref;
  return Status::OK();
}

}  // namespace adaptcp
