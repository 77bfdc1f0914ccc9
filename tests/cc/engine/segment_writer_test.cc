// SPDX-License-Identifier: Apache-2.0
// A segment is written whole and durable, or it leaves nothing.

#include "custom_ops/engine/segment_writer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/cc/engine/segment_file.h"

namespace adaptcp {
namespace {

constexpr const char* kPath = SegmentFile::kPath;

const Status kBroken(StatusCode::kUnavailable, "broken");

// Writes the sample with the file system's faults as they are.
Status WriteSample(MemoryFileSystem* files, SegmentSummary* summary) {
  const SegmentHeader header = MakeHeader();
  BlockMaker make(header);
  std::unique_ptr<SegmentWriter> writer;
  ADAPTCP_RETURN_IF_ERROR(SegmentWriter::Open(files, kPath, header, &writer));
  ADAPTCP_RETURN_IF_ERROR(writer->Append(make.Rows(3)));
  ADAPTCP_RETURN_IF_ERROR(writer->Append(make.Tombstones(2)));
  return writer->Finish(summary);
}

TEST(SegmentWriterTest, SummaryIsThatOfTheFile) {
  SegmentFile file;
  file.BuildSample();
  EXPECT_EQ(file.summary().bytes, file.bytes().size());
  EXPECT_EQ(file.summary().rows, 12u);
  EXPECT_EQ(file.summary().tombstones, 2u);
  ASSERT_OK(file.Open());
  EXPECT_EQ(file.summary().footer_crc, file.reader()->footer_crc());
}

TEST(SegmentWriterTest, SameBlocksGiveTheSameBytes) {
  SegmentFile first;
  SegmentFile second;
  first.BuildSample();
  second.BuildSample();
  EXPECT_EQ(first.bytes(), second.bytes());
}

TEST(SegmentWriterTest, FooterChecksumTellsApartFilesThatDifferInOneValue) {
  SegmentFile file;
  RowBlock block = BlockMaker(file.header()).Rows(5, /*holes=*/false);
  file.Build({block});
  const uint32_t before = file.summary().footer_crc;
  block.columns[1].values[0] ^= 1;
  file.Build({block});
  EXPECT_NE(file.summary().footer_crc, before);
}

TEST(SegmentWriterTest, FinishedFileSurvivesPowerLoss) {
  SegmentFile file;
  file.BuildSample();
  file.files().DropUnsynced();
  EXPECT_OK(file.ReadAll());
}

TEST(SegmentWriterTest, UnfinishedFileIsDeleted) {
  MemoryFileSystem files;
  const SegmentHeader header = MakeHeader();
  {
    std::unique_ptr<SegmentWriter> writer;
    ASSERT_OK(SegmentWriter::Open(&files, kPath, header, &writer));
    ASSERT_OK(writer->Append(BlockMaker(header).Rows(3)));
    EXPECT_EQ(writer->bytes_written(), files.Contents(kPath).size());
  }
  EXPECT_FALSE(files.Exists(kPath));
}

TEST(SegmentWriterTest, AbandonedFileIsDeletedOnce) {
  MemoryFileSystem files;
  std::unique_ptr<SegmentWriter> writer;
  ASSERT_OK(SegmentWriter::Open(&files, kPath, MakeHeader(), &writer));
  EXPECT_OK(writer->Abandon());
  EXPECT_FALSE(files.Exists(kPath));
  files.SetContents(kPath, "another file of that name");
  EXPECT_OK(writer->Abandon());
  writer.reset();
  EXPECT_TRUE(files.Exists(kPath));
}

TEST(SegmentWriterTest, FailureToDeleteIsReported) {
  MemoryFileSystem files;
  std::unique_ptr<SegmentWriter> writer;
  ASSERT_OK(SegmentWriter::Open(&files, kPath, MakeHeader(), &writer));
  files.FailNth(MemoryFileSystem::kDelete, 1, kBroken);
  ExpectFailure(writer->Abandon(), StatusCode::kUnavailable, "broken");
}

TEST(SegmentWriterTest, NothingIsWrittenAfterTheEnd) {
  SegmentFile file;
  std::unique_ptr<SegmentWriter> writer;
  const RowBlock block = BlockMaker(file.header()).Rows(3);
  ASSERT_OK(SegmentWriter::Open(&file.files(), kPath, file.header(), &writer));
  SegmentSummary summary;
  ASSERT_OK(writer->Finish(&summary));
  const std::string bytes = file.bytes();
  ExpectFailure(writer->Append(block), StatusCode::kFailedPrecondition,
                "dir/segment.acp: the segment was already finished or abandoned");
  ExpectFailure(writer->Finish(&summary), StatusCode::kFailedPrecondition, "already finished");
  EXPECT_OK(writer->Abandon());
  writer.reset();
  EXPECT_EQ(file.bytes(), bytes);
}

TEST(SegmentWriterTest, ImpossibleHeaderCreatesNoFile) {
  MemoryFileSystem files;
  SegmentHeader header = MakeHeader();
  header.shard = header.num_shards;
  std::unique_ptr<SegmentWriter> writer;
  ExpectFailure(SegmentWriter::Open(&files, kPath, header, &writer), StatusCode::kInvalidArgument,
                "expected a shard below 2");
  EXPECT_TRUE(files.Paths().empty());
  EXPECT_EQ(writer, nullptr);
}

TEST(SegmentWriterTest, BlockThatDoesNotFitIsRefusedAndHarmsNothing) {
  SegmentFile file;
  BlockMaker make(file.header());
  const RowBlock good = make.Rows(3);
  RowBlock bad = good;
  bad.columns.pop_back();
  file.Build({good});
  const std::string expected = file.bytes();

  std::unique_ptr<SegmentWriter> writer;
  ASSERT_OK(SegmentWriter::Open(&file.files(), kPath, file.header(), &writer));
  ASSERT_OK(writer->Append(good));
  ExpectFailure(writer->Append(bad), StatusCode::kInvalidArgument, "expected 2 columns, found 1");
  SegmentSummary summary;
  ASSERT_OK(writer->Finish(&summary));
  EXPECT_EQ(file.bytes(), expected);
}

TEST(SegmentWriterTest, EmptyBlocksLeaveNoTrace) {
  SegmentFile with;
  SegmentFile without;
  BlockMaker make(with.header());
  const RowBlock rows = make.Rows(3);
  without.Build({rows});
  std::unique_ptr<SegmentWriter> writer;
  ASSERT_OK(SegmentWriter::Open(&with.files(), kPath, with.header(), &writer));
  ASSERT_OK(writer->Append(RowBlock()));
  ASSERT_OK(writer->Append(rows));
  ASSERT_OK(writer->Append(make.Tombstones(0)));
  SegmentSummary summary;
  ASSERT_OK(writer->Finish(&summary));
  EXPECT_EQ(with.bytes(), without.bytes());
}

TEST(SegmentWriterTest, CapacityOfABlockIsNotWritten) {
  SegmentFile exact;
  SegmentFile roomy;
  RowBlock block = BlockMaker(exact.header()).Rows(3);
  exact.Build({block});
  for (TableColumn& column : block.columns) {
    column.values.resize(4096, 'x');
    column.present.resize(500, 0);
  }
  roomy.Build({block});
  EXPECT_EQ(roomy.bytes(), exact.bytes());
}

TEST(SegmentWriterTest, EveryFailingOperationFailsTheSegmentAndLeavesNoFile) {
  MemoryFileSystem counting;
  SegmentSummary summary;
  ASSERT_OK(WriteSample(&counting, &summary));
  for (const auto operation : {MemoryFileSystem::kOpen, MemoryFileSystem::kAppend,
                               MemoryFileSystem::kSync, MemoryFileSystem::kClose}) {
    const int times = counting.OperationCount(operation);
    ASSERT_GE(times, 1);
    for (int nth = 1; nth <= times; ++nth) {
      MemoryFileSystem files;
      files.FailNth(operation, nth, kBroken);
      ExpectFailure(WriteSample(&files, &summary), StatusCode::kUnavailable,
                    "dir/segment.acp: broken");
      EXPECT_FALSE(files.Exists(kPath)) << operation << " " << nth;
    }
  }
}

TEST(SegmentWriterTest, FailureToWriteIsFinal) {
  MemoryFileSystem files;
  const SegmentHeader header = MakeHeader();
  const RowBlock block = BlockMaker(header).Rows(3);
  std::unique_ptr<SegmentWriter> writer;
  ASSERT_OK(SegmentWriter::Open(&files, kPath, header, &writer));
  files.FailNth(MemoryFileSystem::kAppend, 2, kBroken);
  SegmentSummary summary;
  ExpectFailure(writer->Append(block), StatusCode::kUnavailable, "broken");
  ExpectFailure(writer->Append(block), StatusCode::kUnavailable, "broken");
  EXPECT_TRUE(files.Exists(kPath));
  ExpectFailure(writer->Finish(&summary), StatusCode::kUnavailable, "broken");
  EXPECT_FALSE(files.Exists(kPath));
}

TEST(SegmentWriterTest, FullDiskAtAnyByteLeavesNoFile) {
  MemoryFileSystem files;
  SegmentSummary summary;
  ASSERT_OK(WriteSample(&files, &summary));
  for (uint64_t capacity = 0; capacity < summary.bytes; ++capacity) {
    MemoryFileSystem full;
    full.SetCapacity(capacity);
    ExpectFailure(WriteSample(&full, &summary), StatusCode::kResourceExhausted,
                  "dir/segment.acp: no space left");
    EXPECT_TRUE(full.Paths().empty());
  }
}

}  // namespace
}  // namespace adaptcp
