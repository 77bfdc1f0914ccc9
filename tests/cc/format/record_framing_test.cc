// SPDX-License-Identifier: Apache-2.0
// TFRecord frames: the bytes TensorFlow writes, and refusal of any others.

#include "custom_ops/format/record_framing.h"

#include <gtest/gtest.h>

#include <string>

#include "custom_ops/format/crc32c.h"
#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace {

const Origin kOrigin{"file.acp", 40};

std::string Frame(const std::string& payload) {
  return FramePrefix(payload.size()) + payload + FrameSuffix(crc32c::MaskedValue(payload));
}

TEST(RecordFramingTest, BytesAreThoseOfTensorFlow) {
  // tf.io.TFRecordWriter's output for the record b"abc".
  const std::string expected(
      "\x03\0\0\0\0\0\0\0\xb0\x99\x49\x0e"
      "abc"
      "\x6e\x57\xf1\x21",
      19);
  EXPECT_EQ(Frame("abc"), expected);
}

TEST(RecordFramingTest, PayloadReadsBack) {
  for (const std::string& payload : {std::string(), std::string("abc"), std::string(5000, 'x')}) {
    const std::string frame = Frame(payload);
    EXPECT_EQ(frame.size(), payload.size() + kFrameBytes);
    std::string_view decoded;
    ASSERT_OK(DecodeFrame(frame, kOrigin, &decoded));
    EXPECT_EQ(decoded, payload);
  }
}

TEST(RecordFramingTest, EveryFlippedBitIsNoticed) {
  const std::string frame = Frame("some payload");
  std::string_view decoded;
  for (size_t i = 0; i < frame.size() * 8; ++i) {
    const Status status =
        DecodeFrame(FlippedAt(frame, i / 8, static_cast<uint8_t>(1 << (i % 8))), kOrigin, &decoded);
    ExpectFailure(status, StatusCode::kDataLoss, "file.acp: offset 40: checksum");
  }
}

TEST(RecordFramingTest, FrameMustEndWithItsRecord) {
  const std::string frame = Frame("some payload");
  std::string_view decoded;
  for (size_t size = 0; size < frame.size(); ++size) {
    ExpectFailure(DecodeFrame(frame.substr(0, size), kOrigin, &decoded), StatusCode::kDataLoss,
                  "file.acp: offset 40: record");
  }
  ExpectFailure(DecodeFrame(frame + "x", kOrigin, &decoded), StatusCode::kDataLoss,
                "expected 13, found 12");
}

TEST(RecordFramingTest, PrefixOfAnotherSizeIsRefused) {
  uint64_t length = 0;
  ExpectFailure(DecodeFramePrefix("short", kOrigin, &length), StatusCode::kDataLoss,
                "5 bytes left");
  ExpectFailure(DecodeFramePrefix(FramePrefix(1) + "x", kOrigin, &length), StatusCode::kDataLoss,
                "1 more bytes");
}

}  // namespace
}  // namespace adaptcp
