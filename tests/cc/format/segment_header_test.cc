// SPDX-License-Identifier: Apache-2.0
// The header record: whole or refused.

#include "custom_ops/format/segment_header.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace {

const Origin kOrigin{"file.acp", 12};

std::string Encoded(const SegmentHeader& header) {
  std::string bytes;
  EncodeSegmentHeader(header, &bytes);
  return bytes;
}

Status Decode(const std::string& bytes) {
  SegmentHeader header;
  return DecodeSegmentHeader(bytes, kOrigin, &header);
}

void ExpectRoundTrip(const SegmentHeader& header) {
  ASSERT_OK(ValidateSegmentHeader(header));
  SegmentHeader decoded;
  ASSERT_OK(DecodeSegmentHeader(Encoded(header), kOrigin, &decoded));
  EXPECT_TRUE(decoded == header) << decoded.DebugString() << " is not " << header.DebugString();
}

TEST(SegmentHeaderTest, EveryKindAndKeyTypeReadsBack) {
  for (const SegmentKind kind :
       {SegmentKind::kBase, SegmentKind::kIncrement, SegmentKind::kDifferential}) {
    for (const KeyType key_type : {KeyType::kInt64, KeyType::kInt32, KeyType::kString}) {
      SegmentHeader header = MakeHeader(key_type);
      header.kind = kind;
      ExpectRoundTrip(header);
    }
  }
}

TEST(SegmentHeaderTest, EveryDtypeReadsBack) {
  for (const char* dtype :
       {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "bool"}) {
    for (const uint32_t dim : {1u, 99u, 101u}) {
      SegmentHeader header = MakeHeader();
      header.tables = {MakeTable("parameter", dtype, dim)};
      ExpectRoundTrip(header);
    }
  }
}

TEST(SegmentHeaderTest, NamesMayBeLongOrHoldAnyByte) {
  SegmentHeader header = MakeHeader();
  header.group = std::string(70000, 'g');
  header.tables[0].name = std::string("\0/\xff\xc3\xa9", 5);
  header.tables[1].name = "";
  ExpectRoundTrip(header);
}

TEST(SegmentHeaderTest, PrintsWhatTellsSegmentsApart) {
  EXPECT_EQ(MakeHeader().DebugString(),
            "increment at cut 7, group \"user_embedding\", shard 1 of 2, int64 keys, "
            "\"parameter\" 3 x float32, \"m\" 1 x bfloat16");
}

struct Impossible {
  std::string problem;
  std::function<void(SegmentHeader*)> change;
};

TEST(SegmentHeaderTest, ImpossibleHeadersAreRefusedOnBothSides) {
  const Impossible cases[] = {
      {"expected a shard below 2, found 2", [](SegmentHeader* h) { h->shard = 2; }},
      {"expected a shard below 0, found 1", [](SegmentHeader* h) { h->num_shards = 0; }},
      {"expected at least one table, found none", [](SegmentHeader* h) { h->tables.clear(); }},
      {"table \"m\": expected a dtype of fixed width, found \"string\"",
       [](SegmentHeader* h) { h->tables[1].dtype = "string"; }},
      {"table \"m\": expected a dim of at least 1, found 0",
       [](SegmentHeader* h) { h->tables[1] = MakeTable("m", "float32", 0); }},
      {"table \"parameter\": expected 16 bytes a row for 4 x float32, found 12",
       [](SegmentHeader* h) { h->tables[0].dim = 4; }},
      // 2^30 x 4 would be 0 in 32 bits.
      {"expected 4294967296 bytes a row",
       [](SegmentHeader* h) {
         h->tables[0].dim = 1u << 30;
         h->tables[0].row_bytes = 0;
         h->tables[0].initial_value.clear();
       }},
  };
  for (const Impossible& impossible : cases) {
    SegmentHeader header = MakeHeader();
    impossible.change(&header);
    ExpectFailure(ValidateSegmentHeader(header), StatusCode::kInvalidArgument, impossible.problem);
    ExpectFailure(Decode(Encoded(header)), StatusCode::kDataLoss, impossible.problem);
  }
  SegmentHeader header = MakeHeader();
  header.tables[0].initial_value = "short";
  ExpectFailure(ValidateSegmentHeader(header), StatusCode::kInvalidArgument,
                "expected an initial value of 12 bytes, found 5");
}

TEST(SegmentHeaderTest, UnknownMagicVersionKindKeyTypeAndEncodingAreRefused) {
  const std::string good = Encoded(MakeHeader());
  ExpectFailure(Decode(FlippedAt(good, 7)), StatusCode::kDataLoss,
                "file.acp: offset 12: segment magic: expected \"ADAPTCP1\"");
  ExpectFailure(Decode(FlippedAt(good, 8, 3)), StatusCode::kDataLoss,
                "file.acp: offset 20: format version: expected 1, found 2");
  ExpectFailure(Decode(FlippedAt(good, 12, 2)), StatusCode::kDataLoss,
                "file.acp: offset 24: segment kind: expected at most 2, found 3");
  ExpectFailure(Decode(FlippedAt(good, 29, 3)), StatusCode::kDataLoss,
                "file.acp: offset 41: key type: expected at most 2, found 3");
  ExpectFailure(Decode(FlippedAt(good, 30, 7)), StatusCode::kDataLoss,
                "file.acp: offset 42: encoding: expected at most 6 for each half, found 7 and 0");
  ExpectFailure(Decode(FlippedAt(good, 30, 0x71)), StatusCode::kDataLoss, "found 1 and 7");
}

TEST(SegmentHeaderTest, TruncatedOrPaddedHeadersAreRefused) {
  const std::string good = Encoded(MakeHeader(KeyType::kString));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(Decode(good.substr(0, size)).code(), StatusCode::kDataLoss) << size;
  }
  ExpectFailure(Decode(good + '\0'), StatusCode::kDataLoss, "found 1 more bytes");
}

TEST(SegmentHeaderTest, AnyBytesAreRefusedOrReadWithoutHarm) {
  const std::string good = Encoded(MakeHeader());
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (int flips = 1 + random() % 3; flips > 0; --flips) {
      bytes = FlippedAt(bytes, random() % bytes.size(), static_cast<uint8_t>(random()));
    }
    SegmentHeader header;
    const Status status = DecodeSegmentHeader(bytes, kOrigin, &header);
    if (status.ok()) {
      EXPECT_EQ(Encoded(header), bytes);
    } else {
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.message();
    }
    EXPECT_EQ(Decode(RandomBytes(random() % 200, &random)).code(), StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace adaptcp
