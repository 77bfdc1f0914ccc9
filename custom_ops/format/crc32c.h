// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), the checksum of TFRecord files.

#ifndef ADAPTCP_FORMAT_CRC32C_H_
#define ADAPTCP_FORMAT_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace adaptcp {
namespace crc32c {

// The checksum of A followed by `bytes`, where `crc` is the checksum of A (0 for an empty A).
uint32_t Extend(uint32_t crc, std::string_view bytes);

inline uint32_t Value(std::string_view bytes) { return Extend(0, bytes); }

// Checksums are stored masked: the checksum of bytes that hold their own checksum is degenerate.
inline uint32_t Mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
inline uint32_t Unmask(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}
inline uint32_t MaskedValue(std::string_view bytes) { return Mask(Value(bytes)); }

namespace internal {

// The two implementations behind Extend, apart so that tests can hold one against the other.
uint32_t ExtendPortable(uint32_t crc, std::string_view bytes);

using ExtendFunction = uint32_t (*)(uint32_t crc, std::string_view bytes);

// Null when this processor has no CRC-32C instruction.
ExtendFunction HardwareExtend();

}  // namespace internal
}  // namespace crc32c
}  // namespace adaptcp

#endif  // ADAPTCP_FORMAT_CRC32C_H_
