// SPDX-License-Identifier: Apache-2.0
// Reading and verifying of segment files.

#include "custom_ops/engine/segment_reader.h"

#include <algorithm>
#include <utility>

#include "custom_ops/format/crc32c.h"
#include "custom_ops/format/key_record.h"
#include "custom_ops/format/row_codec.h"

namespace adaptcp {
namespace {

// Header, footer and trailer each have at least their framing.
constexpr uint64_t kSmallestFile = 2 * kFrameBytes + kTrailerRecordBytes;

// Holds the footer of some hundred blocks.
constexpr uint64_t kTailBytes = uint64_t{16} << 10;

}  // namespace

Status SegmentReader::Open(FileSystem* files, const std::string& path,
                           std::unique_ptr<SegmentReader>* reader) {
  uint64_t file_bytes = 0;
  ADAPTCP_RETURN_IF_ERROR(files->GetFileSize(path, &file_bytes));
  std::unique_ptr<RandomAccessFile> file;
  ADAPTCP_RETURN_IF_ERROR(files->NewRandomAccessFile(path, &file));
  std::unique_ptr<SegmentReader> opened(new SegmentReader(files, path, std::move(file)));
  Tail tail;
  ADAPTCP_RETURN_IF_ERROR(opened->ReadTail(file_bytes, &tail));
  ADAPTCP_RETURN_IF_ERROR(opened->ReadFooter(tail));
  ADAPTCP_RETURN_IF_ERROR(opened->ReadHeader(tail));
  *reader = std::move(opened);
  return Status::OK();
}

Status SegmentReader::Read(uint64_t offset, size_t size, char* out) const {
  if (file_ != nullptr) return file_->Read(offset, size, out);
  std::unique_ptr<RandomAccessFile> file;
  ADAPTCP_RETURN_IF_ERROR(files_->NewRandomAccessFile(path_, &file));
  return file->Read(offset, size, out);
}

Status SegmentReader::ReadTail(uint64_t file_bytes, Tail* tail) const {
  if (file_bytes < kSmallestFile) {
    return Malformed(At(0), "segment file", Concat("at least ", kSmallestFile, " bytes"),
                     Concat(file_bytes));
  }
  tail->bytes.resize(std::min(file_bytes, kTailBytes));
  tail->offset = file_bytes - tail->bytes.size();
  return Read(tail->offset, tail->bytes.size(), tail->bytes.data());
}

Status SegmentReader::ReadFooter(const Tail& tail) {
  const size_t trailer = tail.bytes.size() - kTrailerRecordBytes;
  ADAPTCP_RETURN_IF_ERROR(DecodeTrailerRecord(std::string_view(tail.bytes).substr(trailer),
                                              At(tail.offset + trailer), &footer_ref_));
  std::string payload;
  ADAPTCP_RETURN_IF_ERROR(ReadPayload(footer_ref_, tail, &payload));
  ADAPTCP_RETURN_IF_ERROR(DecodeSegmentFooter(payload, At(footer_ref_.payload_offset()), &footer_));
  return CheckFooterLayout(footer_, footer_ref_, path_);
}

Status SegmentReader::ReadHeader(const Tail& tail) {
  std::string payload;
  ADAPTCP_RETURN_IF_ERROR(ReadPayload(footer_.header, tail, &payload));
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

Status SegmentReader::ReadValues(size_t block, size_t tables, BlockValues* values) const {
  if (block >= num_blocks()) {
    return InvalidArgument(path_, ": expected values of ", tables, " tables, found no block ",
                           block, ", only ", num_blocks());
  }
  if (tables > footer_.blocks[block].values.size()) {
    return InvalidArgument(path_, ": expected values of ", tables, " tables in block ", block,
                           ", found those of ", footer_.blocks[block].values.size());
  }
  values->rows.assign(tables, nullptr);
  values->decoded.resize(tables);
  if (tables == 0) return Status::OK();
  const BlockIndexEntry& entry = footer_.blocks[block];
  const uint64_t begin = entry.values[0].payload_offset();
  const RecordRef& last = entry.values[tables - 1];
  values->records.resize(last.payload_offset() + last.length - begin);
  ADAPTCP_RETURN_IF_ERROR(Read(begin, values->records.size(), values->records.data()));
  for (size_t t = 0; t < tables; ++t) {
    const RecordRef& ref = entry.values[t];
    const char* const payload = values->records.data() + (ref.payload_offset() - begin);
    ADAPTCP_RETURN_IF_ERROR(CheckPayload(ref, std::string_view(payload, ref.length)));
    values->rows[t] = payload;
    const RowCodec codec(header_, t);
    if (codec.raw()) continue;
    values->decoded[t].resize(size_t{entry.rows} * header_.tables[t].row_bytes);
    codec.Decode(payload, entry.rows, values->decoded[t].data());
    values->rows[t] = values->decoded[t].data();
  }
  return Status::OK();
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
  return CheckPayload(ref, std::string_view(payload, ref.length));
}

Status SegmentReader::ReadPayload(const RecordRef& ref, const Tail& tail,
                                  std::string* payload) const {
  if (ref.payload_offset() < tail.offset) {
    payload->resize(ref.length);
    return ReadPayload(ref, payload->data());
  }
  *payload = tail.bytes.substr(ref.payload_offset() - tail.offset, ref.length);
  return CheckPayload(ref, *payload);
}

Status SegmentReader::CheckPayload(const RecordRef& ref, std::string_view payload) const {
  return CheckPayloadCrc(ref.crc, crc32c::MaskedValue(payload), At(ref.payload_offset()));
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
