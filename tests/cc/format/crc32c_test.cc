// SPDX-License-Identifier: Apache-2.0
// CRC-32C: published vectors, and the two implementations against each other.

#include "custom_ops/format/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace crc32c {
namespace {

// The hardware's is among them where this machine has it.
std::vector<internal::ExtendFunction> Implementations() {
  std::vector<internal::ExtendFunction> all = {internal::ExtendPortable, Extend};
  if (internal::HardwareExtend() != nullptr) all.push_back(internal::HardwareExtend());
  return all;
}

std::string Ascending(int first, int step) {
  std::string bytes;
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<char>(first + i * step));
  return bytes;
}

TEST(Crc32cTest, EveryImplementationGivesThePublishedVectors) {
  // RFC 3720, B.4: an iSCSI read command.
  const std::string command(
      "\x01\xc0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
      "\x14\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x14\x00\x00\x00\x18"
      "\x28\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00",
      48);
  for (const internal::ExtendFunction extend : Implementations()) {
    EXPECT_EQ(extend(0, std::string(32, '\0')), 0x8a9136aau);
    EXPECT_EQ(extend(0, std::string(32, '\xff')), 0x62a8ab43u);
    EXPECT_EQ(extend(0, Ascending(0, 1)), 0x46dd794eu);
    EXPECT_EQ(extend(0, Ascending(31, -1)), 0x113fdb5cu);
    EXPECT_EQ(extend(0, command), 0xd9963a56u);
    EXPECT_EQ(extend(0, "123456789"), 0xe3069283u);
    EXPECT_EQ(extend(0, ""), 0u);
  }
}

TEST(Crc32cTest, ImplementationsAgreeAtEveryLengthAndAlignment) {
  std::mt19937 random(1);
  // Long enough for the widest stretch of the hardware's loop twice over, with every remainder.
  const std::string bytes = RandomBytes(2 * 3 * 4096 + 3 * 256 + 64, &random);
  const std::string_view all = bytes;
  for (const internal::ExtendFunction extend : Implementations()) {
    for (size_t size = 0; size < 1200; ++size) {
      const size_t start = size % 13;
      ASSERT_EQ(extend(9, all.substr(start, size)),
                internal::ExtendPortable(9, all.substr(start, size)))
          << size;
    }
    for (size_t cut = 0; cut < 40; ++cut) {
      const std::string_view part = all.substr(cut % 11, all.size() - 31 * cut - 11);
      ASSERT_EQ(extend(0, part), internal::ExtendPortable(0, part)) << part.size();
    }
  }
}

TEST(Crc32cTest, ExtendingByPartsGivesTheChecksumOfTheWhole) {
  std::mt19937 random(2);
  const std::string bytes = RandomBytes(20000, &random);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{4095}, size_t{12289}, bytes.size()}) {
    const uint32_t first = Value(std::string_view(bytes).substr(0, cut));
    EXPECT_EQ(Extend(first, std::string_view(bytes).substr(cut)), Value(bytes));
  }
}

TEST(Crc32cTest, MaskingIsUndoneByUnmasking) {
  for (const uint32_t crc : {0u, 1u, 0x8a9136aau, 0xffffffffu}) {
    EXPECT_NE(Mask(crc), crc);
    EXPECT_EQ(Unmask(Mask(crc)), crc);
  }
  // As TensorFlow masks: the length field of an empty record.
  EXPECT_EQ(MaskedValue(std::string(8, '\0')), 0x07980329u);
}

}  // namespace
}  // namespace crc32c
}  // namespace adaptcp
