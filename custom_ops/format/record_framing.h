// SPDX-License-Identifier: Apache-2.0
// TFRecord framing: u64 length, u32 masked CRC of the length, payload, u32 masked CRC of payload.

#ifndef ADAPTCP_FORMAT_RECORD_FRAMING_H_
#define ADAPTCP_FORMAT_RECORD_FRAMING_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "custom_ops/base/status.h"
#include "custom_ops/format/coding.h"

namespace adaptcp {

constexpr size_t kFramePrefixBytes = 12;  // length and its CRC, before the payload
constexpr size_t kFrameSuffixBytes = 4;   // the payload's CRC, after it
constexpr size_t kFrameBytes = kFramePrefixBytes + kFrameSuffixBytes;

// Where a record lies and what it must hold: enough to read and check it without its neighbours.
struct RecordRef {
  uint64_t offset = 0;  // of the frame, not of the payload
  uint64_t length = 0;  // of the payload
  uint32_t crc = 0;     // of the payload, masked, as in the frame

  uint64_t payload_offset() const { return offset + kFramePrefixBytes; }
  uint64_t end() const { return offset + kFrameBytes + length; }

  bool operator==(const RecordRef& other) const {
    return offset == other.offset && length == other.length && crc == other.crc;
  }
};

std::string FramePrefix(uint64_t payload_bytes);
std::string FrameSuffix(uint32_t masked_payload_crc);

// The payload's length from kFramePrefixBytes bytes; DataLoss when the length's CRC is wrong.
Status DecodeFramePrefix(std::string_view prefix, const Origin& origin, uint64_t* payload_bytes);

// The payload of one whole frame, nothing before or after it. Points into `frame`.
Status DecodeFrame(std::string_view frame, const Origin& origin, std::string_view* payload);

// DataLoss unless `found`, the masked CRC of the payload at `origin`, is as expected.
Status CheckPayloadCrc(uint32_t expected, uint32_t found, const Origin& origin);

}  // namespace adaptcp

#endif  // ADAPTCP_FORMAT_RECORD_FRAMING_H_
