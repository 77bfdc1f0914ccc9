// SPDX-License-Identifier: Apache-2.0
// The bytes of format version 1: those of the worked example in docs/FORMAT.md, for ever.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/cc/engine/segment_file.h"

namespace adaptcp {
namespace {

constexpr char kExample[] =
    // Header.
    "4800000000000000fe92489d41444150544350310100000001030000000000000000000000010000"
    "000000010000006701000000010000007007000000666c6f61743332020000000800000000000000"
    "00000000adced257"
    // Key record of block 0.
    "290000000000000037ff5f004b0000000002000000000100000000000000feffffffffffffff0300"
    "00000300000000809a1908180142579ce3"
    // Value record of block 0, table "p".
    "100000000000000095fbfe180000803f000000400000003f000080bfebd02257"
    // Key record of block 1, a tombstone.
    "19000000000000008bf108284b0100000001000000010700000000000000030000000000024b3066"
    "17"
    // Footer.
    "73000000000000000d737cc8460100000000000000000000004800000000000000adced257020000"
    "0002000000005800000000000000290000000000000042579ce39100000000000000100000000000"
    "0000ebd022570100000001b10000000000000019000000000000004b306617020000000000000001"
    "0000000000000054194de3"
    // Trailer.
    "200000000000000029eda9504144415054454e440100000054194de3da0000000000000073000000"
    "000000009fdc1fad";

SegmentHeader ExampleHeader() {
  SegmentHeader header;
  header.kind = SegmentKind::kIncrement;
  header.interval = 3;
  header.group = "g";
  header.tables = {MakeTable("p", "float32", 2)};
  header.tables[0].initial_value.assign(8, '\0');
  return header;
}

std::vector<RowBlock> ExampleBlocks() {
  RowBlock rows;
  rows.keys = {1, -2};
  rows.last_updated = {3, 3};
  rows.rates = {32768, 6554};
  rows.flags = {1 << kRowHistoryShift, 3 << kRowHistoryShift};
  TableColumn column;
  column.row_bytes = 8;
  column.present = {1, 1};
  const float values[] = {1.0f, 2.0f, 0.5f, -1.0f};
  column.values.resize(sizeof(values));
  std::memcpy(column.values.data(), values, sizeof(values));
  rows.columns = {column};

  RowBlock tombstones;
  tombstones.keys = {7};
  tombstones.last_updated = {3};
  tombstones.rates = {0};
  tombstones.flags = {kRowTombstone};
  return {rows, tombstones};
}

std::string Hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<uint8_t>(byte);
    text += "0123456789abcdef"[value >> 4];
    text += "0123456789abcdef"[value & 15];
  }
  return text;
}

TEST(SegmentGoldenTest, WriterGivesTheBytesOfTheDocumentedExample) {
  SegmentFile file(ExampleHeader());
  file.Build(ExampleBlocks());
  EXPECT_EQ(Hex(file.bytes()), kExample);
  EXPECT_EQ(file.summary().footer_crc, 0xe34d1954u);
}

TEST(SegmentGoldenTest, DocumentedExampleReadsBack) {
  SegmentFile file(ExampleHeader());
  // Built for the comparison in ReadAll, then replaced by the documented bytes.
  file.Build(ExampleBlocks());
  std::string bytes;
  for (const char* digits = kExample; *digits != '\0'; digits += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(digits, 2), nullptr, 16)));
  }
  file.SetBytes(bytes);
  EXPECT_OK(file.ReadAll());
  EXPECT_OK(file.OpenAndVerify());
}

}  // namespace
}  // namespace adaptcp
