// SPDX-License-Identifier: Apache-2.0
// Fields read back as written, and never past the end.

#include "custom_ops/format/coding.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace {

const Origin kOrigin{"dir/file.acp", 100};

TEST(CodingTest, IntegersAreLittleEndian) {
  std::string bytes;
  AppendInt(uint32_t{0x01020304}, &bytes);
  AppendInt(uint8_t{5}, &bytes);
  EXPECT_EQ(bytes, "\x04\x03\x02\x01\x05");
}

TEST(CodingTest, FieldsReadBackAsWritten) {
  std::string bytes;
  AppendInt(int64_t{-2}, &bytes);
  AppendString("name", &bytes);
  AppendArray(std::vector<uint16_t>{1, 65535}, &bytes);
  AppendArray(std::vector<uint16_t>{}, &bytes);
  AppendInt(uint8_t{1}, &bytes);

  ByteReader reader(bytes, kOrigin);
  int64_t number = 0;
  std::string name;
  std::vector<uint16_t> array;
  bool flag = false;
  ASSERT_OK(reader.ReadInt("number", &number));
  ASSERT_OK(reader.ReadString("name", &name));
  ASSERT_OK(reader.ReadArray("array", 2, &array));
  EXPECT_EQ(array, (std::vector<uint16_t>{1, 65535}));
  ASSERT_OK(reader.ReadArray("array", 0, &array));
  ASSERT_OK(reader.ReadBool("flag", &flag));
  EXPECT_OK(reader.ExpectEnd("fields"));
  EXPECT_EQ(number, -2);
  EXPECT_EQ(name, "name");
  EXPECT_TRUE(array.empty());
  EXPECT_TRUE(flag);
}

TEST(CodingTest, FailuresNameFileOffsetExpectedAndFound) {
  ByteReader reader("\x01\x02\x03", kOrigin);
  uint16_t first = 0;
  ASSERT_OK(reader.ReadInt("first", &first));
  uint32_t second = 77;
  ExpectFailure(reader.ReadInt("second", &second), StatusCode::kDataLoss,
                "dir/file.acp: offset 102: second: expected 4 bytes, found only 1 bytes");
  ExpectFailure(reader.ExpectEnd("fields"), StatusCode::kDataLoss,
                "dir/file.acp: offset 102: fields: expected the end of the record, found 1 more");
  EXPECT_EQ(second, 77u);
}

TEST(CodingTest, CountsBeyondTheBytesAreRefusedWithoutAllocating) {
  const std::string bytes(16, '\xff');
  std::vector<uint64_t> array = {1};
  for (const uint64_t count :
       {uint64_t{3}, uint64_t{1} << 61, uint64_t{1} << 62, std::numeric_limits<uint64_t>::max()}) {
    ByteReader reader(bytes, kOrigin);
    ExpectFailure(reader.ReadArray("array", count, &array), StatusCode::kDataLoss, "16 bytes left");
  }
  EXPECT_EQ(array.size(), 1u);
  ByteReader reader(bytes, kOrigin);
  std::string text;
  ExpectFailure(reader.ReadString("text", &text), StatusCode::kDataLoss,
                "expected 4294967295 bytes, found only 12");
}

TEST(CodingTest, OtherMagicAndOtherBooleansAreRefused) {
  ByteReader reader("AB\x02", kOrigin);
  ExpectFailure(reader.ReadMagic("magic", "AC"), StatusCode::kDataLoss,
                "offset 100: magic: expected \"AC\", found \"AB\"");
  bool flag = false;
  ExpectFailure(reader.ReadBool("flag", &flag), StatusCode::kDataLoss,
                "offset 102: flag: expected 0 or 1, found 2");
}

TEST(CodingTest, UntrustedBytesArePrintable) {
  EXPECT_EQ(Quoted(std::string("a\0\"\\\xff", 5)), "\"a\\x00\\x22\\x5c\\xff\"");
  EXPECT_EQ(Quoted(std::string(100, 'x')), "\"" + std::string(64, 'x') + "...\"");
}

}  // namespace
}  // namespace adaptcp
