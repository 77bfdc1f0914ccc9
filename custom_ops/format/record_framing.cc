// SPDX-License-Identifier: Apache-2.0
// Encoding and checking of TFRecord frames.

#include "custom_ops/format/record_framing.h"

#include "custom_ops/format/crc32c.h"

namespace adaptcp {
namespace {

Status CheckCrc(const char* what, uint32_t expected, uint32_t found, const Origin& origin) {
  if (expected == found) return Status::OK();
  return Malformed(origin, what, Concat("masked CRC-32C ", expected), Concat(found));
}

}  // namespace

std::string FramePrefix(uint64_t payload_bytes) {
  std::string prefix;
  AppendInt(payload_bytes, &prefix);
  AppendInt(crc32c::MaskedValue(prefix), &prefix);
  return prefix;
}

std::string FrameSuffix(uint32_t masked_payload_crc) {
  std::string suffix;
  AppendInt(masked_payload_crc, &suffix);
  return suffix;
}

Status DecodeFramePrefix(std::string_view prefix, const Origin& origin, uint64_t* payload_bytes) {
  ByteReader reader(prefix, origin);
  uint64_t length = 0;
  uint32_t crc = 0;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("record length", &length));
  ADAPTCP_RETURN_IF_ERROR(reader.ReadInt("checksum of the record length", &crc));
  ADAPTCP_RETURN_IF_ERROR(reader.ExpectEnd("record length"));
  ADAPTCP_RETURN_IF_ERROR(CheckCrc("checksum of the record length", crc,
                                   crc32c::MaskedValue(prefix.substr(0, sizeof(length))), origin));
  *payload_bytes = length;
  return Status::OK();
}

Status DecodeFrame(std::string_view frame, const Origin& origin, std::string_view* payload) {
  if (frame.size() < kFrameBytes) {
    return Malformed(origin, "record", Concat("at least ", kFrameBytes, " bytes"),
                     Concat(frame.size()));
  }
  uint64_t length = 0;
  ADAPTCP_RETURN_IF_ERROR(DecodeFramePrefix(frame.substr(0, kFramePrefixBytes), origin, &length));
  const uint64_t available = frame.size() - kFrameBytes;
  if (length != available) {
    return Malformed(origin, "record length", Concat(available), Concat(length));
  }
  const std::string_view body = frame.substr(kFramePrefixBytes, length);
  ByteReader suffix(frame.substr(kFramePrefixBytes + length), origin);
  uint32_t crc = 0;
  ADAPTCP_RETURN_IF_ERROR(suffix.ReadInt("checksum of the record", &crc));
  ADAPTCP_RETURN_IF_ERROR(CheckPayloadCrc(crc, crc32c::MaskedValue(body), origin));
  *payload = body;
  return Status::OK();
}

Status CheckPayloadCrc(uint32_t expected, uint32_t found, const Origin& origin) {
  return CheckCrc("checksum of the record", expected, found, origin);
}

}  // namespace adaptcp
