// SPDX-License-Identifier: Apache-2.0
// Footer and trailer: an index that accounts for every byte, or none.

#include "custom_ops/format/segment_footer.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "custom_ops/format/crc32c.h"
#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace {

const char kPath[] = "file.acp";

// Lays records out one after the other, as the writer does.
class FooterMaker {
 public:
  FooterMaker() {
    footer_.num_tables = 2;
    footer_.header = Next(100);
  }

  FooterMaker& Rows(uint32_t rows) {
    footer_.blocks.push_back({rows, false, Next(50), {Next(rows * 12), Next(rows * 2)}});
    footer_.rows += rows;
    return *this;
  }

  FooterMaker& Tombstones(uint32_t rows) {
    footer_.blocks.push_back({rows, true, Next(30), {}});
    footer_.tombstones += rows;
    return *this;
  }

  SegmentFooter footer() const { return footer_; }

  RecordRef footer_ref() const {
    std::string payload;
    EncodeSegmentFooter(footer_, &payload);
    return RecordRef{end_, payload.size(), crc32c::MaskedValue(payload)};
  }

 private:
  RecordRef Next(uint64_t length) {
    const RecordRef ref{end_, length, ++crc_};
    end_ = ref.end();
    return ref;
  }

  SegmentFooter footer_;
  uint64_t end_ = 0;
  uint32_t crc_ = 0;
};

FooterMaker Sample() { return FooterMaker().Rows(3).Tombstones(2).Rows(1); }

std::string Encoded(const SegmentFooter& footer) {
  std::string bytes;
  EncodeSegmentFooter(footer, &bytes);
  return bytes;
}

Status Decode(const std::string& bytes) {
  SegmentFooter footer;
  return DecodeSegmentFooter(bytes, Origin{kPath, 1000}, &footer);
}

TEST(SegmentFooterTest, ReadsBack) {
  for (const FooterMaker& maker : {FooterMaker(), FooterMaker().Tombstones(4), Sample()}) {
    SegmentFooter decoded;
    ASSERT_OK(DecodeSegmentFooter(Encoded(maker.footer()), Origin{kPath, 1000}, &decoded));
    EXPECT_TRUE(decoded == maker.footer()) << decoded.DebugString();
    EXPECT_OK(CheckFooterLayout(decoded, maker.footer_ref(), kPath));
    EXPECT_OK(CheckFooterFitsHeader(decoded, maker.footer_ref(), MakeHeader(), kPath));
  }
}

TEST(SegmentFooterTest, PrintsRowsAndPlacesOfItsBlocks) {
  EXPECT_EQ(FooterMaker().Rows(3).Tombstones(2).footer().DebugString(),
            "3 rows and 2 tombstones of 2 tables in 2 blocks, [116, 256): 3 rows, "
            "[256, 302): 2 tombstones");
}

TEST(SegmentFooterTest, TotalsThatAreNotTheSumsAreRefused) {
  SegmentFooter footer = Sample().footer();
  ++footer.rows;
  --footer.tombstones;
  ExpectFailure(Decode(Encoded(footer)), StatusCode::kDataLoss,
                "totals of the footer: expected 4 rows and 2 tombstones, found 5 and 1");
}

TEST(SegmentFooterTest, OtherMagicIsRefused) {
  ExpectFailure(Decode(FlippedAt(Encoded(Sample().footer()), 0)), StatusCode::kDataLoss,
                "file.acp: offset 1000: footer: expected \"F\"");
}

TEST(SegmentFooterTest, TruncatedOrPaddedFootersAreRefused) {
  const std::string good = Encoded(Sample().footer());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(Decode(good.substr(0, size)).code(), StatusCode::kDataLoss) << size;
  }
  EXPECT_EQ(Decode(good + '\0').code(), StatusCode::kDataLoss);
}

TEST(SegmentFooterTest, HugeCountsAreRefusedWithoutAllocating) {
  SegmentFooter footer = Sample().footer();
  footer.num_tables = std::numeric_limits<uint32_t>::max();
  ExpectFailure(Decode(Encoded(footer)), StatusCode::kDataLoss, "bytes left in the record");
  footer = FooterMaker().footer();
  const std::string bytes = Encoded(footer);
  const size_t num_blocks_offset = 1 + 4 + 20;
  ExpectFailure(Decode(FlippedAt(bytes, num_blocks_offset + 3)), StatusCode::kDataLoss,
                "bytes left in the record");
}

struct Misplaced {
  std::string problem;
  std::function<void(SegmentFooter*)> change;
};

TEST(SegmentFooterTest, RecordsThatDoNotFollowEachOtherAreRefused) {
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  const Misplaced cases[] = {
      {"offset 0: record named by the footer: expected offset 0, found 1",
       [](SegmentFooter* f) { f->header.offset = 1; }},
      {"offset 117: record named by the footer: expected offset 117, found 116",
       [](SegmentFooter* f) { f->header.length = 101; }},
      {"offset 396: record named by the footer: expected at most 18 bytes with framing, found 3",
       [](SegmentFooter* f) { f->blocks[2].values[1].length = 3; }},
      {"found 18446744073709551615 without", [](SegmentFooter* f) { f->header.length = kHuge; }},
      {"found 18446744073709551600 without",
       [](SegmentFooter* f) { f->header.length = kHuge - 15; }},
      {"expected offset 116, found 256",
       [](SegmentFooter* f) { std::swap(f->blocks[0], f->blocks[1]); }},
      {"end of the last block: expected the footer at 414, found 112 bytes unaccounted",
       [](SegmentFooter* f) { f->blocks.pop_back(); }},
  };
  for (const Misplaced& misplaced : cases) {
    SegmentFooter footer = Sample().footer();
    misplaced.change(&footer);
    ExpectFailure(CheckFooterLayout(footer, Sample().footer_ref(), kPath), StatusCode::kDataLoss,
                  misplaced.problem);
  }
}

TEST(SegmentFooterTest, IndexOfOtherTablesIsRefused) {
  const FooterMaker maker = Sample();
  SegmentHeader header = MakeHeader();
  header.tables[1] = MakeTable("m", "float32", 1);
  ExpectFailure(CheckFooterFitsHeader(maker.footer(), maker.footer_ref(), header, kPath),
                StatusCode::kDataLoss, "length of a value record: expected 3 x 4 bytes, found 6");
  header.tables.pop_back();
  ExpectFailure(CheckFooterFitsHeader(maker.footer(), maker.footer_ref(), header, kPath),
                StatusCode::kDataLoss, "number of tables in the footer: expected 1, found 2");
}

TEST(SegmentTrailerTest, ReadsBackFromTheLastBytes) {
  const RecordRef ref = Sample().footer_ref();
  std::string trailer;
  AppendTrailerRecord(ref, &trailer);
  ASSERT_EQ(trailer.size(), kTrailerRecordBytes);
  RecordRef decoded;
  ASSERT_OK(DecodeTrailerRecord(trailer, Origin{kPath, ref.end()}, &decoded));
  EXPECT_TRUE(decoded == ref);
}

TEST(SegmentTrailerTest, AnyOtherBytesAreRefused) {
  const RecordRef ref = Sample().footer_ref();
  const Origin origin{kPath, ref.end()};
  std::string trailer;
  AppendTrailerRecord(ref, &trailer);
  RecordRef decoded;
  for (size_t i = 0; i < trailer.size(); ++i) {
    EXPECT_EQ(DecodeTrailerRecord(FlippedAt(trailer, i), origin, &decoded).code(),
              StatusCode::kDataLoss);
  }
  ExpectFailure(DecodeTrailerRecord(std::string(kTrailerRecordBytes, 'x'), origin, &decoded),
                StatusCode::kDataLoss,
                "magic of the trailer of a whole segment: expected "
                "\"ADAPTEND\", found \"xxxxxxxx\"");
  ExpectFailure(DecodeTrailerRecord(trailer.substr(1), origin, &decoded), StatusCode::kDataLoss,
                "trailer: expected 48 bytes, found 47");
}

TEST(SegmentTrailerTest, FooterMustEndWhereTheTrailerBegins) {
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  const RecordRef cases[] = {{100, 50, 1}, {100, 52, 1},      {0, kHuge, 1},       {kHuge, 0, 1},
                             {168, 0, 1},  {kHuge, kHuge, 1}, {160, kHuge - 8, 1}, {167, 0, 1}};
  for (const RecordRef& ref : cases) {
    std::string trailer;
    AppendTrailerRecord(ref, &trailer);
    RecordRef decoded;
    ExpectFailure(DecodeTrailerRecord(trailer, Origin{kPath, 167}, &decoded), StatusCode::kDataLoss,
                  "footer: expected an end at offset 167");
  }
}

TEST(SegmentTrailerTest, LaterVersionsAreRefused) {
  const RecordRef ref = Sample().footer_ref();
  std::string trailer;
  AppendTrailerRecord(ref, &trailer);
  std::string payload = trailer.substr(kFramePrefixBytes, 32);
  payload[8] = 2;
  trailer = FramePrefix(32) + payload + FrameSuffix(crc32c::MaskedValue(payload));
  RecordRef decoded;
  ExpectFailure(DecodeTrailerRecord(trailer, Origin{kPath, ref.end()}, &decoded),
                StatusCode::kDataLoss, "format version: expected 1, found 2");
}

}  // namespace
}  // namespace adaptcp
