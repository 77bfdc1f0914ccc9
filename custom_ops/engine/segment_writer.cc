// SPDX-License-Identifier: Apache-2.0
// Writing of segment files.

#include "custom_ops/engine/segment_writer.h"

#include <limits>
#include <utility>

#include "custom_ops/format/crc32c.h"
#include "custom_ops/format/key_record.h"
#include "custom_ops/format/row_codec.h"

namespace adaptcp {

Status SegmentWriter::Open(FileSystem* files, const std::string& path, const SegmentHeader& header,
                           std::unique_ptr<SegmentWriter>* writer) {
  ADAPTCP_RETURN_IF_ERROR(ValidateSegmentHeader(header));
  std::unique_ptr<WritableFile> file;
  ADAPTCP_RETURN_IF_ERROR(files->NewWritableFile(path, &file));
  std::unique_ptr<SegmentWriter> opened(new SegmentWriter(files, path, header, std::move(file)));
  ADAPTCP_RETURN_IF_ERROR(opened->WriteHeader());
  *writer = std::move(opened);
  return Status::OK();
}

SegmentWriter::SegmentWriter(FileSystem* files, std::string path, SegmentHeader header,
                             std::unique_ptr<WritableFile> file)
    : files_(files), path_(std::move(path)), header_(std::move(header)), file_(std::move(file)) {
  footer_.num_tables = static_cast<uint32_t>(header_.tables.size());
}

SegmentWriter::~SegmentWriter() {
  // Nobody is left to be told: a file that stays behind is garbage that no manifest names.
  static_cast<void>(Abandon());
}

Status SegmentWriter::Append(const RowBlock& block) {
  ADAPTCP_RETURN_IF_ERROR(CheckWritable());
  if (block.rows() == 0) return Status::OK();
  ADAPTCP_RETURN_IF_ERROR(ValidateRowBlock(block, header_));
  if (footer_.blocks.size() == std::numeric_limits<uint32_t>::max()) {
    return FailedPrecondition(path_, ": a segment holds at most ", footer_.blocks.size(),
                              " blocks");
  }
  return WriteBlock(block);
}

Status SegmentWriter::Finish(SegmentSummary* summary) {
  Status status = CheckWritable();
  if (status.ok()) status = WriteFooterAndTrailer();
  if (status.ok()) status = file_->Sync();
  if (status.ok()) status = file_->Close();
  if (!status.ok()) {
    // The failure to write is what the caller must hear of, not one to delete.
    static_cast<void>(Abandon());
    return status;
  }
  file_.reset();
  *summary = SegmentSummary{offset_, footer_.rows, footer_.tombstones, footer_crc_};
  return Status::OK();
}

Status SegmentWriter::Abandon() {
  if (file_ == nullptr) return Status::OK();
  file_.reset();
  return files_->DeleteFile(path_);
}

Status SegmentWriter::CheckWritable() const {
  if (!status_.ok()) return status_;
  if (file_ != nullptr) return Status::OK();
  return FailedPrecondition(path_, ": the segment was already finished or abandoned");
}

Status SegmentWriter::WriteHeader() {
  buffer_.clear();
  EncodeSegmentHeader(header_, &buffer_);
  return WriteRecord(buffer_, &footer_.header);
}

Status SegmentWriter::WriteBlock(const RowBlock& block) {
  BlockIndexEntry entry;
  entry.rows = static_cast<uint32_t>(block.rows());
  entry.tombstones = HoldsTombstones(block);
  buffer_.clear();
  EncodeKeyRecord(block, static_cast<uint32_t>(footer_.blocks.size()), &buffer_);
  ADAPTCP_RETURN_IF_ERROR(WriteRecord(buffer_, &entry.keys));
  entry.values.resize(block.columns.size());
  for (size_t i = 0; i < block.columns.size(); ++i) {
    const TableColumn& column = block.columns[i];
    const RowCodec codec(header_, i);
    std::string_view values(column.values.data(), block.rows() * column.row_bytes);
    if (!codec.raw()) {
      buffer_.resize(block.rows() * codec.encoded_bytes());
      codec.Encode(column.values.data(), block.rows(), buffer_.data());
      values = buffer_;
    }
    ADAPTCP_RETURN_IF_ERROR(WriteRecord(values, &entry.values[i]));
  }
  (entry.tombstones ? footer_.tombstones : footer_.rows) += entry.rows;
  footer_.blocks.push_back(std::move(entry));
  return Status::OK();
}

Status SegmentWriter::WriteFooterAndTrailer() {
  buffer_.clear();
  EncodeSegmentFooter(footer_, &buffer_);
  RecordRef footer_ref;
  ADAPTCP_RETURN_IF_ERROR(WriteRecord(buffer_, &footer_ref));
  footer_crc_ = footer_ref.crc;
  buffer_.clear();
  AppendTrailerRecord(footer_ref, &buffer_);
  return Write(buffer_);
}

Status SegmentWriter::WriteRecord(std::string_view payload, RecordRef* ref) {
  *ref = RecordRef{offset_, payload.size(), crc32c::MaskedValue(payload)};
  ADAPTCP_RETURN_IF_ERROR(Write(FramePrefix(payload.size())));
  ADAPTCP_RETURN_IF_ERROR(Write(payload));
  return Write(FrameSuffix(ref->crc));
}

Status SegmentWriter::Write(std::string_view bytes) {
  status_ = file_->Append(bytes.data(), bytes.size());
  if (status_.ok()) offset_ += bytes.size();
  return status_;
}

}  // namespace adaptcp
