// SPDX-License-Identifier: Apache-2.0
// Damaged segments: every kind is noticed, none crashes, what reads still reads right.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "custom_ops/format/crc32c.h"
#include "tests/cc/engine/segment_file.h"

namespace adaptcp {
namespace {

std::string Frame(const std::string& payload) {
  return FramePrefix(payload.size()) + payload + FrameSuffix(crc32c::MaskedValue(payload));
}

std::string Record(const std::string& bytes, const RecordRef& ref) {
  return bytes.substr(ref.offset, ref.end() - ref.offset);
}

// Every record of the open file, in order, the trailer as the last.
std::vector<RecordRef> Records(const SegmentReader& reader) {
  std::vector<RecordRef> records = {RecordRef{0, reader.block(0).keys.offset - kFrameBytes, 0}};
  for (size_t i = 0; i < reader.num_blocks(); ++i) {
    records.push_back(reader.block(i).keys);
    for (const RecordRef& values : reader.block(i).values) records.push_back(values);
  }
  const uint64_t footer = records.back().end();
  const uint64_t trailer = reader.bytes() - kTrailerRecordBytes;
  records.push_back(RecordRef{footer, trailer - footer - kFrameBytes, 0});
  records.push_back(RecordRef{trailer, kTrailerRecordBytes - kFrameBytes, 0});
  return records;
}

class SegmentDamageTest : public testing::Test {
 protected:
  void SetUp() override {
    file_.BuildSample();
    good_ = file_.bytes();
    ASSERT_OK(file_.Open());
    records_ = Records(*file_.reader());
  }

  // Expects that a full verification finds the damage and that a restore either does too or reads
  // what was written (ReadAll compares).
  void ExpectNoticed(const std::string& bytes, const std::string& what) {
    file_.SetBytes(bytes);
    ExpectFailure(file_.OpenAndVerify(), StatusCode::kDataLoss, "dir/segment.acp: offset ");
    const Status status = file_.ReadAll();
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kDataLoss) << status.message();
    EXPECT_FALSE(HasFailure()) << what;
  }

  SegmentFile file_;
  std::string good_;
  std::vector<RecordRef> records_;
};

TEST_F(SegmentDamageTest, EveryFlippedByteIsNoticed) {
  for (size_t i = 0; i < good_.size(); ++i) {
    ExpectNoticed(FlippedAt(good_, i), Concat("byte ", i));
    ExpectNoticed(FlippedAt(good_, i, 1), Concat("lowest bit of byte ", i));
  }
}

TEST_F(SegmentDamageTest, EveryFlippedPayloadByteIsNoticedByARestore) {
  for (const RecordRef& record : records_) {
    for (uint64_t i = 0; i < record.length; ++i) {
      file_.SetBytes(FlippedAt(good_, record.payload_offset() + i));
      EXPECT_EQ(file_.ReadAll().code(), StatusCode::kDataLoss) << record.payload_offset() + i;
    }
  }
}

TEST_F(SegmentDamageTest, TruncationAtEveryLengthIsNoticedOnOpening) {
  for (size_t size = 0; size < good_.size(); ++size) {
    file_.SetBytes(good_.substr(0, size));
    ExpectFailure(file_.Open(), StatusCode::kDataLoss, "dir/segment.acp: offset ");
  }
}

TEST_F(SegmentDamageTest, AppendedBytesAreNoticedOnOpening) {
  std::mt19937 random(5);
  for (size_t size = 1; size < 100; ++size) {
    file_.SetBytes(good_ + RandomBytes(size, &random));
    ExpectFailure(file_.Open(), StatusCode::kDataLoss, "dir/segment.acp: offset ");
  }
  file_.SetBytes(good_ + good_);
  ExpectFailure(file_.Open(), StatusCode::kDataLoss, "footer: expected an end at offset");
}

TEST_F(SegmentDamageTest, ZeroedPagesAreNoticed) {
  for (size_t start = 0; start < good_.size(); start += 64) {
    std::string bytes = good_;
    const size_t size = std::min<size_t>(64, bytes.size() - start);
    bytes.replace(start, size, size, '\0');
    ExpectNoticed(bytes, Concat("zeros at ", start));
  }
}

TEST_F(SegmentDamageTest, RecordsInAnyOtherOrderAreNoticed) {
  for (size_t i = 0; i < records_.size(); ++i) {
    for (size_t j = i + 1; j < records_.size(); ++j) {
      std::string bytes;
      for (size_t k = 0; k < records_.size(); ++k) {
        bytes += Record(good_, records_[k == i ? j : k == j ? i : k]);
      }
      ExpectNoticed(bytes, Concat("records ", i, " and ", j, " swapped"));
    }
  }
}

TEST_F(SegmentDamageTest, MissingOrRepeatedRecordsAreNoticed) {
  for (size_t i = 0; i < records_.size(); ++i) {
    std::string without = good_;
    without.erase(records_[i].offset, records_[i].end() - records_[i].offset);
    ExpectNoticed(without, Concat("record ", i, " missing"));
    // A repeated trailer is caught by the place it gives for the footer.
    std::string twice = good_;
    twice.insert(records_[i].offset, Record(good_, records_[i]));
    ExpectNoticed(twice, Concat("record ", i, " twice"));
  }
}

TEST_F(SegmentDamageTest, ValuesOfAnotherBlockOfTheSameShapeAreNoticed) {
  SegmentFile file;
  BlockMaker make(file.header());
  file.Build({make.Rows(4, false), make.Rows(4, false)});
  ASSERT_OK(file.Open());
  const RecordRef first = file.reader()->block(0).values[0];
  const RecordRef second = file.reader()->block(1).values[0];
  ASSERT_EQ(first.length, second.length);
  std::string bytes = file.bytes();
  bytes.replace(first.offset, first.length + kFrameBytes, Record(file.bytes(), second));
  file.SetBytes(bytes);
  ASSERT_OK(file.Open());
  BlockValues values;
  ExpectFailure(file.reader()->ReadValues(0, 1, &values), StatusCode::kDataLoss,
                Concat("offset ", first.payload_offset(), ": checksum of the record: expected"));
  ExpectFailure(file.reader()->Verify(), StatusCode::kDataLoss, "checksum of the record");
}

TEST_F(SegmentDamageTest, OtherFilesAreNoSegments) {
  std::mt19937 random(6);
  for (int round = 0; round < 2000; ++round) {
    file_.SetBytes(RandomBytes(random() % 500, &random));
    EXPECT_EQ(file_.Open().code(), StatusCode::kDataLoss);
    // A valid TFRecord file of one record of random bytes.
    file_.SetBytes(Frame(RandomBytes(random() % 500, &random)));
    EXPECT_EQ(file_.Open().code(), StatusCode::kDataLoss);
  }
}

// Rewrites one record with a valid checksum and an index to match, as faulty software would.
std::string Forge(const std::string& good, const SegmentReader& reader, size_t target,
                  const std::string& payload) {
  SegmentFooter footer;
  footer.num_tables = static_cast<uint32_t>(reader.header().tables.size());
  footer.rows = reader.rows();
  footer.tombstones = reader.tombstones();
  std::string bytes;
  size_t number = 0;
  const auto copy = [&](const RecordRef& old) {
    const std::string body =
        number++ == target ? payload : good.substr(old.payload_offset(), old.length);
    const RecordRef ref{bytes.size(), body.size(), crc32c::MaskedValue(body)};
    bytes += Frame(body);
    return ref;
  };
  footer.header = copy(Records(reader)[0]);
  for (size_t i = 0; i < reader.num_blocks(); ++i) {
    BlockIndexEntry entry = reader.block(i);
    entry.keys = copy(entry.keys);
    for (RecordRef& values : entry.values) values = copy(values);
    footer.blocks.push_back(entry);
  }
  std::string body;
  EncodeSegmentFooter(footer, &body);
  const RecordRef footer_ref{bytes.size(), body.size(), crc32c::MaskedValue(body)};
  bytes += Frame(body);
  AppendTrailerRecord(footer_ref, &bytes);
  return bytes;
}

TEST_F(SegmentDamageTest, WrongRecordsWithValidChecksumsAreNoticed) {
  // With nothing changed, the forger's file is the writer's.
  ASSERT_EQ(Forge(good_, *file_.reader(), records_.size(), ""), good_);
  const std::unique_ptr<SegmentReader> reader = [&] {
    std::unique_ptr<SegmentReader> opened;
    EXPECT_OK(SegmentReader::Open(&file_.files(), SegmentFile::kPath, &opened));
    return opened;
  }();
  const auto payload = [&](size_t i) {
    return good_.substr(records_[i].payload_offset(), records_[i].length);
  };
  // Records: header, block 0 (keys and two values), block 1 (keys), block 2 (keys, two values).
  ExpectNoticed(Forge(good_, *reader, 1, payload(5)), "keys of block 2 in block 0");
  ExpectNoticed(Forge(good_, *reader, 1, payload(4)), "tombstones in place of rows");
  ExpectNoticed(Forge(good_, *reader, 4, FlippedAt(payload(4), 1, 1)), "block number 0 for 1");
  ExpectNoticed(Forge(good_, *reader, 2, payload(3)), "values of another table");
  ExpectNoticed(Forge(good_, *reader, 0, payload(1)), "keys in place of the header");
  ExpectNoticed(Forge(good_, *reader, 0, FlippedAt(payload(0), 8)), "another format version");
  ExpectNoticed(Forge(good_, *reader, 2, ""), "no values");
}

TEST_F(SegmentDamageTest, RandomKeyRecordsWithValidChecksumsDoNoHarm) {
  std::unique_ptr<SegmentReader> reader;
  ASSERT_OK(SegmentReader::Open(&file_.files(), SegmentFile::kPath, &reader));
  const std::string keys = good_.substr(records_[1].payload_offset(), records_[1].length);
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    const std::string payload =
        round % 2 == 0 ? FlippedAt(keys, random() % keys.size(), static_cast<uint8_t>(random()))
                       : RandomBytes(random() % 200, &random);
    file_.SetBytes(Forge(good_, *reader, 1, payload));
    const Status status = file_.OpenAndVerify();
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kDataLoss) << status.message();
  }
}

}  // namespace
}  // namespace adaptcp
