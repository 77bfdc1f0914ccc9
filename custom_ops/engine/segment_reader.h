// SPDX-License-Identifier: Apache-2.0
// Reads one segment file: any block, keys and values apart.

#ifndef ADAPTCP_ENGINE_SEGMENT_READER_H_
#define ADAPTCP_ENGINE_SEGMENT_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "custom_ops/base/status.h"
#include "custom_ops/format/record_framing.h"
#include "custom_ops/format/row_block.h"
#include "custom_ops/format/segment_footer.h"
#include "custom_ops/format/segment_header.h"
#include "custom_ops/io/file_system.h"

namespace adaptcp {

// The rows of a block in several tables, as SegmentReader::ReadValues found them.
struct BlockValues {
  // Per table its rows, header().tables[t].row_bytes each: in `records` if they are stored raw,
  // otherwise in `decoded`.
  std::vector<const char*> rows;
  std::string records;
  std::vector<std::vector<char>> decoded;
};

// Immutable once open: any number of threads may read at once. Whatever is read is checked against
// its checksum; damage is DataLoss naming file, offset, expected and found.
class SegmentReader {
 public:
  // Reads trailer, footer and header and checks that together they account for every byte of the
  // file, at two requests unless the footer is long. `files` outlives the reader. NotFound when
  // there is no such file.
  static Status Open(FileSystem* files, const std::string& path,
                     std::unique_ptr<SegmentReader>* reader);

  SegmentReader(const SegmentReader&) = delete;
  SegmentReader& operator=(const SegmentReader&) = delete;

  // Closes the file; each read opens it again. Not while others read.
  void CloseFile() { file_.reset(); }

  const std::string& path() const { return path_; }
  const SegmentHeader& header() const { return header_; }
  uint64_t bytes() const { return footer_ref_.end() + kTrailerRecordBytes; }
  uint64_t rows() const { return footer_.rows; }
  uint64_t tombstones() const { return footer_.tombstones; }
  // As SegmentSummary::footer_crc: tells whether this is the file that the manifest means.
  uint32_t footer_crc() const { return footer_ref_.crc; }

  size_t num_blocks() const { return footer_.blocks.size(); }
  const BlockIndexEntry& block(size_t i) const { return footer_.blocks[i]; }

  // Sets all of `rows` but the columns' values, which are left empty. Fails with InvalidArgument
  // when there is no such block.
  Status ReadKeys(size_t block, RowBlock* rows) const;

  // Reads the first `tables` tables' rows of a block, at one request. InvalidArgument when there is
  // no such block or table, or the block holds tombstones. `values` is undefined after a failure.
  Status ReadValues(size_t block, size_t tables, BlockValues* values) const;

  // Reads every byte of the file, framing included, in the memory of its largest record.
  Status Verify() const;

 private:
  SegmentReader(FileSystem* files, std::string path, std::unique_ptr<RandomAccessFile> file)
      : files_(files), path_(std::move(path)), file_(std::move(file)) {}

  Status Read(uint64_t offset, size_t size, char* out) const;
  // The end of the file, which holds trailer and footer, and all of a small file.
  struct Tail {
    uint64_t offset;
    std::string bytes;
  };
  Status ReadTail(uint64_t file_bytes, Tail* tail) const;
  Status ReadFooter(const Tail& tail);
  Status ReadHeader(const Tail& tail);
  // As ReadPayload, but from the tail if the record lies there.
  Status ReadPayload(const RecordRef& ref, const Tail& tail, std::string* payload) const;
  // Reads the payload of a record and checks it against the index, without its framing.
  Status ReadPayload(const RecordRef& ref, char* payload) const;
  Status CheckPayload(const RecordRef& ref, std::string_view payload) const;
  Status DecodeKeys(size_t block, std::string_view payload, RowBlock* rows) const;
  // Reads the whole frame of a record into `buffer`, where `payload` then points.
  Status VerifyRecord(const RecordRef& ref, std::string* buffer, std::string_view* payload) const;
  Status VerifyBlock(size_t block, std::string* buffer) const;

  Origin At(uint64_t offset) const { return Origin{path_, offset}; }

  // Constant after Open.
  FileSystem* const files_;
  const std::string path_;
  std::unique_ptr<RandomAccessFile> file_;  // null after CloseFile
  SegmentHeader header_;
  SegmentFooter footer_;
  RecordRef footer_ref_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_SEGMENT_READER_H_
