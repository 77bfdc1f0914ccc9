// SPDX-License-Identifier: Apache-2.0
// Writes one segment file, block by block.

#ifndef ADAPTCP_ENGINE_SEGMENT_WRITER_H_
#define ADAPTCP_ENGINE_SEGMENT_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "custom_ops/base/status.h"
#include "custom_ops/format/record_framing.h"
#include "custom_ops/format/row_block.h"
#include "custom_ops/format/segment_footer.h"
#include "custom_ops/format/segment_header.h"
#include "custom_ops/io/file_system.h"

namespace adaptcp {

// What the manifest says of a segment.
struct SegmentSummary {
  uint64_t bytes = 0;
  uint64_t rows = 0;  // without tombstones
  uint64_t tombstones = 0;
  uint32_t footer_crc = 0;  // masked; stands for every byte of the file
};

// Not thread-safe. A failure to write is final: every later call returns it again, and the file
// is deleted by Finish, Abandon or the destructor.
class SegmentWriter {
 public:
  // Creates the file, replacing one of that name, and writes the header. `files` must outlive the
  // writer. InvalidArgument when the header is impossible, otherwise the file system's failure.
  static Status Open(FileSystem* files, const std::string& path, const SegmentHeader& header,
                     std::unique_ptr<SegmentWriter>* writer);

  // Deletes the file unless it was finished or abandoned.
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  // Writes one block; raw values go to the file from where they are. A block without rows leaves no
  // trace. InvalidArgument, without harm to the file, when the block does not fit the header.
  Status Append(const RowBlock& block);

  // Writes footer and trailer, syncs and closes. On failure the file is deleted. Either way the
  // writer is then at its end.
  Status Finish(SegmentSummary* summary);

  // Closes and deletes the file. Does nothing after Finish or Abandon.
  Status Abandon();

  uint64_t bytes_written() const { return offset_; }

 private:
  SegmentWriter(FileSystem* files, std::string path, SegmentHeader header,
                std::unique_ptr<WritableFile> file);

  // Writes one framed record and says where it lies.
  Status WriteRecord(std::string_view payload, RecordRef* ref);
  Status WriteHeader();
  Status WriteBlock(const RowBlock& block);
  Status WriteFooterAndTrailer();
  Status Write(std::string_view bytes);
  Status CheckWritable() const;

  FileSystem* const files_;
  const std::string path_;
  const SegmentHeader header_;

  std::unique_ptr<WritableFile> file_;  // null at the end
  Status status_;                       // the first failure to write
  uint64_t offset_ = 0;                 // bytes written so far
  SegmentFooter footer_;
  uint32_t footer_crc_ = 0;
  std::string buffer_;  // payload under construction; kept for its capacity
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_SEGMENT_WRITER_H_
