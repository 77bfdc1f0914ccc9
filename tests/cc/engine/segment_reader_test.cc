// SPDX-License-Identifier: Apache-2.0
// A segment reads back as it was written, block by block, table by table, from several threads.

#include "custom_ops/engine/segment_reader.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "custom_ops/format/row_codec.h"
#include "tests/cc/engine/segment_file.h"

namespace adaptcp {
namespace {

TEST(SegmentReaderTest, BlocksReadBackAsWritten) {
  for (const KeyType key_type : {KeyType::kInt64, KeyType::kInt32, KeyType::kString}) {
    SegmentFile file(MakeHeader(key_type));
    file.BuildSample();
    EXPECT_OK(file.ReadAll());
    EXPECT_OK(file.OpenAndVerify());
  }
}

TEST(SegmentReaderTest, EveryDtypeAndDimReadsBack) {
  for (const char* dtype :
       {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "bool"}) {
    for (const uint32_t dim : {1u, 2u, 99u, 100u, 101u, 200u}) {
      SegmentHeader header = MakeHeader();
      header.tables = {MakeTable("parameter", dtype, dim)};
      SegmentFile file(header);
      BlockMaker make(header);
      file.Build({make.Rows(10), make.Rows(1)});
      EXPECT_OK(file.ReadAll());
    }
  }
}

TEST(SegmentReaderTest, EncodedValuesReadBackAsTheCodecGivesThem) {
  for (const bool slots : {false, true}) {
    SegmentHeader header = MakeHeader();
    header.tables = {MakeTable("parameter", "float32", 16), MakeTable("m", "float64", 5),
                     MakeTable("steps", "int64", 1)};
    header.encoding = Encoding::kInt4;
    header.slot_encoding = slots ? Encoding::kInt8 : Encoding::kRaw;
    SegmentFile file(header);
    RowBlock block = BlockMaker(header).Rows(40);
    file.Build({block});
    ASSERT_OK(file.OpenAndVerify());
    EXPECT_TRUE(file.reader()->header() == header) << file.reader()->header().DebugString();
    EXPECT_EQ(file.reader()->block(0).values[0].length, 40u * (8 + 8));
    EXPECT_EQ(file.reader()->block(0).values[1].length, 40u * (slots ? 8 + 5 : 40));
    EXPECT_EQ(file.reader()->block(0).values[2].length, 40u * 8);
    BlockValues values;
    ASSERT_OK(file.reader()->ReadValues(0, 3, &values));
    for (size_t t = 0; t < 3; ++t) {
      const RowCodec codec(header, t);
      std::string encoded(40 * codec.encoded_bytes(), '\0');
      codec.Encode(block.columns[t].values.data(), 40, encoded.data());
      std::vector<char> expected(block.columns[t].values.size());
      codec.Decode(encoded.data(), 40, expected.data());
      const char* const rows = values.rows[t];
      EXPECT_EQ(std::vector<char>(rows, rows + expected.size()), expected) << t;
    }
  }
}

TEST(SegmentReaderTest, SegmentWithoutBlocksReadsBack) {
  SegmentFile file;
  file.Build({});
  EXPECT_OK(file.ReadAll());
  EXPECT_OK(file.OpenAndVerify());
  EXPECT_EQ(file.reader()->num_blocks(), 0u);
  EXPECT_EQ(file.reader()->rows(), 0u);
}

TEST(SegmentReaderTest, SegmentOfTombstonesOnlyReadsBack) {
  SegmentFile file;
  file.Build({BlockMaker(file.header()).Tombstones(1000)});
  EXPECT_OK(file.ReadAll());
  EXPECT_EQ(file.reader()->rows(), 0u);
  EXPECT_EQ(file.reader()->tombstones(), 1000u);
}

TEST(SegmentReaderTest, IndexTellsRowsAndKindsOfTheBlocks) {
  SegmentFile file;
  file.BuildSample();
  ASSERT_OK(file.Open());
  const SegmentReader& reader = *file.reader();
  EXPECT_EQ(reader.path(), SegmentFile::kPath);
  EXPECT_EQ(reader.bytes(), file.bytes().size());
  ASSERT_EQ(reader.num_blocks(), 3u);
  EXPECT_EQ(reader.block(0).rows, 3u);
  EXPECT_FALSE(reader.block(0).tombstones);
  EXPECT_EQ(reader.block(1).rows, 2u);
  EXPECT_TRUE(reader.block(1).tombstones);
  EXPECT_TRUE(reader.block(1).values.empty());
  EXPECT_EQ(reader.block(2).values.size(), 2u);
}

TEST(SegmentReaderTest, KeysReadWithoutTouchingValues) {
  SegmentFile file;
  file.BuildSample();
  ASSERT_OK(file.Open());
  const RecordRef values = file.reader()->block(0).values[0];
  file.files().Corrupt(SegmentFile::kPath, values.payload_offset(), values.length);
  RowBlock block;
  ASSERT_OK(file.reader()->ReadKeys(0, &block));
  EXPECT_TRUE(block == WithoutValues(BlockMaker(file.header()).Rows(3)));
}

// A round trip to remote storage takes as long as some hundred kilobytes.
TEST(SegmentReaderTest, FewRequestsReadASegment) {
  SegmentFile file;
  BlockMaker make(file.header());
  const auto reads = [&] { return file.files().OperationCount(MemoryFileSystem::kRead); };
  for (const size_t rows : {3, 3000}) {
    file.Build({make.Rows(rows)});
    int before = reads();
    ASSERT_OK(file.Open());
    // The header of a large file is too far from its end.
    EXPECT_EQ(reads() - before, rows < 100 ? 1 : 2);
    before = reads();
    BlockValues values;
    ASSERT_OK(file.reader()->ReadValues(0, 2, &values));
    EXPECT_EQ(reads() - before, 1);
    ASSERT_OK(file.reader()->ReadValues(0, 0, &values));
    EXPECT_EQ(reads() - before, 1);
  }
}

TEST(SegmentReaderTest, FooterOfManyBlocksReadsBack) {
  SegmentFile file;
  BlockMaker make(file.header());
  std::vector<RowBlock> blocks;
  for (int i = 0; i < 500; ++i) blocks.push_back(make.Rows(1));
  file.Build(blocks);
  EXPECT_OK(file.ReadAll());
}

TEST(SegmentReaderTest, FirstTablesReadWithoutTouchingOthers) {
  SegmentFile file;
  file.BuildSample();
  ASSERT_OK(file.Open());
  const RecordRef second = file.reader()->block(0).values[1];
  file.files().Corrupt(SegmentFile::kPath, second.payload_offset(), second.length);
  BlockValues values;
  ASSERT_OK(file.reader()->ReadValues(0, 1, &values));
  const TableColumn expected = BlockMaker(file.header()).Rows(3).columns[0];
  EXPECT_EQ(std::string(values.rows[0], expected.values.size()),
            std::string(expected.values.begin(), expected.values.end()));
  ExpectFailure(file.reader()->ReadValues(0, 2, &values), StatusCode::kDataLoss,
                Concat("offset ", second.payload_offset()));
}

TEST(SegmentReaderTest, BlocksAndTablesThatAreNotThereAreRefused) {
  SegmentFile file;
  file.BuildSample();
  ASSERT_OK(file.Open());
  RowBlock block;
  BlockValues values;
  const SegmentReader& reader = *file.reader();
  ExpectFailure(reader.ReadKeys(3, &block), StatusCode::kInvalidArgument,
                "dir/segment.acp: expected a block below 3, found 3");
  ExpectFailure(reader.ReadValues(3, 1, &values), StatusCode::kInvalidArgument,
                "dir/segment.acp: expected values of 1 tables, found no block 3, only 3");
  ExpectFailure(reader.ReadValues(0, 3, &values), StatusCode::kInvalidArgument,
                "expected values of 3 tables in block 0, found those of 2");
  ExpectFailure(reader.ReadValues(1, 1, &values), StatusCode::kInvalidArgument,
                "expected values of 1 tables in block 1, found those of 0");
}

TEST(SegmentReaderTest, MissingFileIsNotFound) {
  SegmentFile file;
  ExpectFailure(file.Open(), StatusCode::kNotFound, SegmentFile::kPath);
}

TEST(SegmentReaderTest, FailingReadsAreReported) {
  SegmentFile file;
  file.BuildSample();
  ASSERT_OK(file.OpenAndVerify());
  const int reads = file.files().OperationCount(MemoryFileSystem::kRead);
  for (int nth = 1; nth <= reads; ++nth) {
    file.files().FailNth(MemoryFileSystem::kRead, nth, Status(StatusCode::kUnavailable, "gone"));
    ExpectFailure(file.OpenAndVerify(), StatusCode::kUnavailable, "dir/segment.acp: gone");
  }
  EXPECT_OK(file.OpenAndVerify());
}

TEST(SegmentReaderTest, ThreadsMayReadDifferentBlocksAtOnce) {
  SegmentFile file;
  BlockMaker make(file.header());
  std::vector<RowBlock> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(i % 3 == 2 ? make.Tombstones(50) : make.Rows(50));
  file.Build(blocks);
  ASSERT_OK(file.Open());
  std::vector<RowBlock> read(blocks.size());
  std::vector<Status> statuses(blocks.size());
  const auto read_every_fourth = [&](size_t first) {
    for (size_t i = first; i < read.size(); i += 4) {
      statuses[i] = file.reader()->ReadKeys(i, &read[i]);
      statuses[i].Update(ReadColumns(*file.reader(), i, &read[i]));
      statuses[i].Update(file.reader()->Verify());
    }
  };
  std::vector<std::thread> threads;
  for (size_t first = 0; first < 4; ++first) threads.emplace_back(read_every_fourth, first);
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) EXPECT_OK(status);
  EXPECT_TRUE(read == blocks);
}

}  // namespace
}  // namespace adaptcp
