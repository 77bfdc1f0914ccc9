// SPDX-License-Identifier: Apache-2.0
// Key records: what is written reads back, the impossible is refused on both sides.

#include "custom_ops/format/key_record.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace {

const Origin kOrigin{"file.acp", 1000};

std::string Encoded(const RowBlock& block, uint32_t number = 5) {
  std::string bytes;
  EncodeKeyRecord(block, number, &bytes);
  return bytes;
}

Status Decode(const std::string& bytes, const SegmentHeader& header) {
  uint32_t number = 0;
  RowBlock block;
  return DecodeKeyRecord(bytes, kOrigin, header, &number, &block);
}

void ExpectRoundTrip(const RowBlock& block, const SegmentHeader& header) {
  ASSERT_OK(ValidateRowBlock(block, header));
  uint32_t number = 0;
  RowBlock decoded;
  ASSERT_OK(DecodeKeyRecord(Encoded(block, 123456), kOrigin, header, &number, &decoded));
  EXPECT_EQ(number, 123456u);
  EXPECT_TRUE(decoded == WithoutValues(block)) << block.rows() << " rows";
}

TEST(KeyRecordTest, RowsOfEveryKeyTypeReadBack) {
  for (const KeyType key_type : {KeyType::kInt64, KeyType::kInt32, KeyType::kString}) {
    const SegmentHeader header = MakeHeader(key_type);
    BlockMaker make(header);
    for (const size_t rows : {1, 7, 8, 9, 64, 1000}) {
      ExpectRoundTrip(make.Rows(rows, /*holes=*/false), header);
      ExpectRoundTrip(make.Rows(rows, /*holes=*/true), header);
      ExpectRoundTrip(make.Tombstones(rows), header);
    }
  }
}

TEST(KeyRecordTest, ExtremeKeysReadBack) {
  const SegmentHeader header = MakeHeader();
  RowBlock block = BlockMaker(header).Rows(4);
  block.keys = {std::numeric_limits<int64_t>::min(), -1, 0, std::numeric_limits<int64_t>::max()};
  ExpectRoundTrip(block, header);

  const SegmentHeader strings = MakeHeader(KeyType::kString);
  block = BlockMaker(strings).Rows(3);
  block.string_keys = {"", std::string(70000, 'k'), std::string("\0\xff", 2)};
  ExpectRoundTrip(block, strings);
}

TEST(KeyRecordTest, AllPresentTakesOneByteATable) {
  const SegmentHeader header = MakeHeader();
  RowBlock block = BlockMaker(header).Rows(80, /*holes=*/false);
  const size_t without_holes = Encoded(block).size();
  block.columns[1].present[3] = 0;
  EXPECT_EQ(Encoded(block).size(), without_holes + 80 / 8);
}

TEST(KeyRecordTest, EntriesBeyondTheRowsAreNotWritten) {
  const SegmentHeader header = MakeHeader();
  const RowBlock block = BlockMaker(header).Rows(3, /*holes=*/false);
  RowBlock roomy = block;
  for (TableColumn& column : roomy.columns) {
    column.present.resize(9, 0);
    column.values.resize(1000, 'x');
  }
  ASSERT_OK(ValidateRowBlock(roomy, header));
  EXPECT_EQ(Encoded(roomy), Encoded(block));
}

struct Impossible {
  std::string problem;
  std::function<void(RowBlock*)> change;
};

TEST(KeyRecordTest, BlocksThatDoNotFitAreRefused) {
  const SegmentHeader header = MakeHeader(KeyType::kInt32);
  const Impossible cases[] = {
      {"expected at least one row", [](RowBlock* b) { *b = RowBlock(); }},
      {"keys: expected 3 entries, found 2", [](RowBlock* b) { b->keys.pop_back(); }},
      {"string keys: expected 0 entries", [](RowBlock* b) { b->string_keys.resize(3); }},
      {"last_updated: expected 3 entries", [](RowBlock* b) { b->last_updated.push_back(1); }},
      {"rates: expected 3 entries", [](RowBlock* b) { b->rates.clear(); }},
      {"expected a key of int32, found 2147483648", [](RowBlock* b) { b->keys[1] = 1LL << 31; }},
      {"expected row flags without 4, found 4", [](RowBlock* b) { b->flags[2] = 4; }},
      {"expected only rows in the block", [](RowBlock* b) { b->flags[1] = kRowTombstone; }},
      {"expected 0 columns, found 2", [](RowBlock* b) { b->flags.assign(3, kRowTombstone); }},
      {"expected 2 columns, found 1", [](RowBlock* b) { b->columns.pop_back(); }},
      {"column 1: expected 3 rows of 2 bytes", [](RowBlock* b) { b->columns[1].row_bytes = 4; }},
      {"found rows of 12 bytes, 35 bytes", [](RowBlock* b) { b->columns[0].values.pop_back(); }},
      {"2 presence entries", [](RowBlock* b) { b->columns[0].present.pop_back(); }},
  };
  for (const Impossible& impossible : cases) {
    RowBlock block = BlockMaker(header).Rows(3);
    impossible.change(&block);
    ExpectFailure(ValidateRowBlock(block, header), StatusCode::kInvalidArgument,
                  impossible.problem);
  }
}

TEST(KeyRecordTest, RecordsThatContradictThemselvesAreRefused) {
  const SegmentHeader header = MakeHeader(KeyType::kInt32);
  RowBlock block = BlockMaker(header).Rows(3, /*holes=*/false);

  RowBlock wide = block;
  wide.keys[1] = 1LL << 31;
  ExpectFailure(Decode(Encoded(wide), header), StatusCode::kDataLoss,
                "file.acp: offset 1000: key record: expected a key of int32, found 2147483648");
  RowBlock mixed = block;
  mixed.flags[2] = kRowTombstone;
  ExpectFailure(Decode(Encoded(mixed), header), StatusCode::kDataLoss,
                "expected only rows in the block, found a tombstone");
  RowBlock reserved = block;
  reserved.flags[2] = 4;
  ExpectFailure(Decode(Encoded(reserved), header), StatusCode::kDataLoss,
                "expected row flags without 4, found 4");

  const std::string none = FlippedAt(Encoded(block), 5, 3);
  ExpectFailure(Decode(none, header), StatusCode::kDataLoss,
                "file.acp: offset 1005: number of rows: expected at least 1, found 0");
  ExpectFailure(Decode(FlippedAt(Encoded(block), 0), header), StatusCode::kDataLoss,
                "offset 1000: key record: expected \"K\"");
  block.columns[1].present[0] = 0;
  const std::string bytes = Encoded(block);
  ExpectFailure(Decode(FlippedAt(bytes, bytes.size() - 1, 0x80), header), StatusCode::kDataLoss,
                "expected zero bits after the last row");
  // The bitmap is the last byte and lacks only the first row.
  ExpectFailure(Decode(FlippedAt(bytes, bytes.size() - 1, 1), header), StatusCode::kDataLoss,
                "presence bitmap: expected an absent row, found all present");
}

TEST(KeyRecordTest, RecordsOfOtherTablesAreRefused) {
  SegmentHeader header = MakeHeader();
  const std::string bytes = Encoded(BlockMaker(header).Rows(10));
  header.tables.push_back(header.tables[1]);
  EXPECT_EQ(Decode(bytes, header).code(), StatusCode::kDataLoss);
  header.tables.resize(1);
  EXPECT_EQ(Decode(bytes, header).code(), StatusCode::kDataLoss);
  EXPECT_EQ(Decode(bytes, MakeHeader(KeyType::kString)).code(), StatusCode::kDataLoss);
}

TEST(KeyRecordTest, TruncatedOrPaddedRecordsAreRefused) {
  for (const KeyType key_type : {KeyType::kInt64, KeyType::kString}) {
    const SegmentHeader header = MakeHeader(key_type);
    const std::string good = Encoded(BlockMaker(header).Rows(9));
    for (size_t size = 0; size < good.size(); ++size) {
      EXPECT_EQ(Decode(good.substr(0, size), header).code(), StatusCode::kDataLoss) << size;
    }
    ExpectFailure(Decode(good + '\0', header), StatusCode::kDataLoss, "found 1 more bytes");
  }
}

TEST(KeyRecordTest, AnyBytesAreRefusedOrReadWithoutHarm) {
  std::mt19937 random(4);
  for (const KeyType key_type : {KeyType::kInt64, KeyType::kInt32, KeyType::kString}) {
    const SegmentHeader header = MakeHeader(key_type);
    const std::string good = Encoded(BlockMaker(header).Rows(9));
    for (int round = 0; round < 10000; ++round) {
      const std::string bytes =
          FlippedAt(good, random() % good.size(), static_cast<uint8_t>(random()));
      uint32_t number = 0;
      RowBlock block;
      const Status status = DecodeKeyRecord(bytes, kOrigin, header, &number, &block);
      if (status.ok()) {
        EXPECT_EQ(Encoded(block, number), bytes);
      } else {
        EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.message();
      }
      const Status garbage = Decode("K" + RandomBytes(random() % 100, &random), header);
      EXPECT_EQ(garbage.code(), StatusCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace adaptcp
