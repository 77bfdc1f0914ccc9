// SPDX-License-Identifier: Apache-2.0
// A small language for tests of segment files: write blocks, damage the file, read it back.

#ifndef ADAPTCP_TESTS_CC_ENGINE_SEGMENT_FILE_H_
#define ADAPTCP_TESTS_CC_ENGINE_SEGMENT_FILE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "custom_ops/engine/segment_reader.h"
#include "custom_ops/engine/segment_writer.h"
#include "custom_ops/testing/memory_file_system.h"
#include "tests/cc/engine/read_columns.h"
#include "tests/cc/format/segment_samples.h"

namespace adaptcp {

class SegmentFile {
 public:
  static constexpr char kPath[] = "dir/segment.acp";

  explicit SegmentFile(const SegmentHeader& header = MakeHeader()) : header_(header) {}

  // Writes a segment of these blocks, replacing what was there.
  void Build(const std::vector<RowBlock>& blocks) {
    blocks_ = blocks;
    std::unique_ptr<SegmentWriter> writer;
    ASSERT_OK(SegmentWriter::Open(&files_, kPath, header_, &writer));
    for (const RowBlock& block : blocks) ASSERT_OK(writer->Append(block));
    ASSERT_OK(writer->Finish(&summary_));
  }

  // Two blocks of rows around one of tombstones.
  void BuildSample() {
    BlockMaker make(header_);
    Build({make.Rows(3), make.Tombstones(2), make.Rows(9)});
  }

  Status Open() { return SegmentReader::Open(&files_, kPath, &reader_); }

  // Opens and reads all there is, as a restore does, and compares with what was built.
  Status ReadAll() {
    ADAPTCP_RETURN_IF_ERROR(Open());
    for (size_t i = 0; i < reader_->num_blocks(); ++i) {
      RowBlock block;
      ADAPTCP_RETURN_IF_ERROR(reader_->ReadKeys(i, &block));
      ADAPTCP_RETURN_IF_ERROR(ReadColumns(*reader_, i, &block));
      EXPECT_TRUE(i < blocks_.size() && block == blocks_[i]) << "block " << i;
    }
    EXPECT_EQ(reader_->num_blocks(), blocks_.size());
    EXPECT_TRUE(reader_->header() == header_) << reader_->header().DebugString();
    return Status::OK();
  }

  Status OpenAndVerify() {
    ADAPTCP_RETURN_IF_ERROR(Open());
    return reader_->Verify();
  }

  std::string bytes() { return files_.Contents(kPath); }
  void SetBytes(const std::string& bytes) { files_.SetContents(kPath, bytes); }

  MemoryFileSystem& files() { return files_; }
  const SegmentHeader& header() const { return header_; }
  const SegmentSummary& summary() const { return summary_; }
  // Null before Open.
  const SegmentReader* reader() const { return reader_.get(); }

 private:
  const SegmentHeader header_;
  MemoryFileSystem files_;
  std::vector<RowBlock> blocks_;
  SegmentSummary summary_;
  std::unique_ptr<SegmentReader> reader_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_TESTS_CC_ENGINE_SEGMENT_FILE_H_
