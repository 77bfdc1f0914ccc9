// SPDX-License-Identifier: Apache-2.0
// Reading and verifying of segment files.

#include "custom_ops/engine/segment_reader.h"

#include <utility>

#include "custom_ops/format/crc32c.h"
#include "custom_ops/format/key_record.h"
#include "custom_ops/format/row_codec.h"

namespace adaptcp {
namespace {

// Header, footer and trailer each have at least their framing.
constexpr uint64_t kSmallestFile = 2 * kFrameBytes + kTrailerRecordBytes;

}  // namespace

Status SegmentReader::Open(FileSystem* files, const std::string& path,
                           std::unique_ptr<SegmentReader>* reader) {
  uint64_t file_bytes = 0;
  ADAPTCP_RETURN_IF_ERROR(files->GetFileSize(path, &file_bytes));
  std::unique_ptr<RandomAccessFile> file;
  ADAPTCP_RETURN_IF_ERROR(files->NewRandomAccessFile(path, &file));
  std::unique_ptr<SegmentReader> opened(new SegmentReader(files, path, std::move(file)));
  ADAPTCP_RETURN_IF_ERROR(opened->ReadFooter(file_bytes));
  ADAPTCP_RETURN_IF_ERROR(opened->ReadHeader());
  *reader = std::move(opened);
  return Status::OK();
}

Status SegmentReader::Read(uint64_t offset, size_t size, char* out) const {
  if (file_ != nullptr) return file_->Read(offset, size, out);
  std::unique_ptr<RandomAccessFile> file;
  ADAPTCP_RETURN_IF_ERROR(files_->NewRandomAccessFile(path_, &file));
  return file->Read(offset, size, out);
}

Status SegmentReader::ReadFooter(uint64_t file_bytes) {
  if (file_bytes < kSmallestFile) {
    return Malformed(At(0), "segment file", Concat("at least ", kSmallestFile, " bytes"),
                     Concat(file_bytes));
  }
  const uint64_t trailer_offset = file_bytes - kTrailerRecordBytes;
  std::string trailer(kTrailerRecordBytes, '\0');
  ADAPTCP_RETURN_IF_ERROR(Read(trailer_offset, trailer.size(), trailer.data()));
  ADAPTCP_RETURN_IF_ERROR(DecodeTrailerRecord(trailer, At(trailer_offset), &footer_ref_));
  std::string payload(footer_ref_.length, '\0');
  ADAPTCP_RETURN_IF_ERROR(ReadPayload(footer_ref_, payload.data()));
  ADAPTCP_RETURN_IF_ERROR(DecodeSegmentFooter(payload, At(footer_ref_.payload_offset()), &footer_));
  return CheckFooterLayout(footer_, footer_ref_, path_);
}

Status SegmentReader::ReadHeader() {
  std::string payload(footer_.header.length, '\0');
  ADAPTCP_RETURN_IF_ERROR(ReadPayload(footer_.header, payload.data()));
  ADAPTCP_RETURN_IF_ERROR(
      DecodeSegmentHeader(payload, At(footer_.header.payload_offset()), &header_));
  return CheckFooterFitsHeader(footer_, footer_ref_, header_, path_);
}

Status SegmentReader::ReadKeys(size_t block, RowBlock* rows) const {
  if (block >= num_blocks()) {
    return InvalidArgument(path_, ": expected a block below ", num_blocks(), ", found ", block);
  }
  const RecordRef& ref = footer_.blocks[block].keys;
  std::string payload(ref.length, '\0');
  ADAPTCP_RETURN_IF_ERROR(ReadPayload(ref, payload.data()));
  return DecodeKeys(block, payload, rows);
}

Status SegmentReader::ReadValues(size_t block, size_t table, char* values) const {
  if (block >= num_blocks() || table >= footer_.blocks[block].values.size()) {
    return InvalidArgument(path_, ": no values of table ", table, " in block ", block, " of ",
                           num_blocks());
  }
  const BlockIndexEntry& entry = footer_.blocks[block];
  const RowCodec codec(header_, table);
  if (codec.raw()) return ReadPayload(entry.values[table], values);
  std::string encoded(entry.values[table].length, '\0');
  ADAPTCP_RETURN_IF_ERROR(ReadPayload(entry.values[table], encoded.data()));
  codec.Decode(encoded.data(), entry.rows, values);
  return Status::OK();
}

Status SegmentReader::ReadValues(size_t block, size_t table, std::vector<char>* values) const {
  if (block < num_blocks() && table < footer_.blocks[block].values.size()) {
    values->resize(size_t{footer_.blocks[block].rows} * header_.tables[table].row_bytes);
  }
  return ReadValues(block, table, values->data());
}

Status SegmentReader::Verify() const {
  std::string buffer;
  std::string_view payload;
  ADAPTCP_RETURN_IF_ERROR(VerifyRecord(footer_.header, &buffer, &payload));
  for (size_t i = 0; i < num_blocks(); ++i) ADAPTCP_RETURN_IF_ERROR(VerifyBlock(i, &buffer));
  ADAPTCP_RETURN_IF_ERROR(VerifyRecord(footer_ref_, &buffer, &payload));
  buffer.resize(kTrailerRecordBytes);
  ADAPTCP_RETURN_IF_ERROR(Read(footer_ref_.end(), buffer.size(), buffer.data()));
  RecordRef footer_ref;
  return DecodeTrailerRecord(buffer, At(footer_ref_.end()), &footer_ref);
}

Status SegmentReader::VerifyBlock(size_t block, std::string* buffer) const {
  const BlockIndexEntry& entry = footer_.blocks[block];
  std::string_view payload;
  ADAPTCP_RETURN_IF_ERROR(VerifyRecord(entry.keys, buffer, &payload));
  RowBlock rows;
  ADAPTCP_RETURN_IF_ERROR(DecodeKeys(block, payload, &rows));
  for (const RecordRef& values : entry.values) {
    ADAPTCP_RETURN_IF_ERROR(VerifyRecord(values, buffer, &payload));
  }
  return Status::OK();
}

Status SegmentReader::VerifyRecord(const RecordRef& ref, std::string* buffer,
                                   std::string_view* payload) const {
  buffer->resize(kFrameBytes + ref.length);
  ADAPTCP_RETURN_IF_ERROR(Read(ref.offset, buffer->size(), buffer->data()));
  ADAPTCP_RETURN_IF_ERROR(DecodeFrame(*buffer, At(ref.offset), payload));
  return CheckPayloadCrc(ref.crc, crc32c::MaskedValue(*payload), At(ref.payload_offset()));
}

Status SegmentReader::ReadPayload(const RecordRef& ref, char* payload) const {
  ADAPTCP_RETURN_IF_ERROR(Read(ref.payload_offset(), ref.length, payload));
  const uint32_t found = crc32c::MaskedValue(std::string_view(payload, ref.length));
  return CheckPayloadCrc(ref.crc, found, At(ref.payload_offset()));
}

Status SegmentReader::DecodeKeys(size_t block, std::string_view payload, RowBlock* rows) const {
  const BlockIndexEntry& entry = footer_.blocks[block];
  const Origin origin = At(entry.keys.payload_offset());
  uint32_t number = 0;
  RowBlock decoded;
  ADAPTCP_RETURN_IF_ERROR(DecodeKeyRecord(payload, origin, header_, &number, &decoded));
  if (number != block) {
    return Malformed(origin, "block number", Concat(block), Concat(number));
  }
  if (decoded.rows() != entry.rows || HoldsTombstones(decoded) != entry.tombstones) {
    return Malformed(origin, "rows of the key record",
                     Concat(entry.rows, entry.tombstones ? " tombstones" : " rows"),
                     Concat(decoded.rows(), HoldsTombstones(decoded) ? " tombstones" : " rows"));
  }
  *rows = std::move(decoded);
  return Status::OK();
}

}  // namespace adaptcp
