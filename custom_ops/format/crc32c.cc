// SPDX-License-Identifier: Apache-2.0
// CRC-32C by the SSE4.2 instruction where the processor has it, by tables elsewhere.

#include "custom_ops/format/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace adaptcp {
namespace crc32c {
namespace {

constexpr uint32_t kReversedPolynomial = 0x82f63b78u;

using ByteTable = std::array<uint32_t, 256>;

// tables[k][b] is the effect of byte b followed by k zero bytes.
constexpr std::array<ByteTable, 8> MakeSlicingTables() {
  std::array<ByteTable, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kReversedPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < 8; ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[slice - 1][byte];
      tables[slice][byte] = tables[0][previous & 0xff] ^ (previous >> 8);
    }
  }
  return tables;
}

constexpr std::array<ByteTable, 8> kSlicing = MakeSlicingTables();

inline uint64_t Load64(const char* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

}  // namespace

namespace internal {

uint32_t ExtendPortable(uint32_t crc, std::string_view bytes) {
  const char* data = bytes.data();
  size_t size = bytes.size();
  uint32_t state = ~crc;
  for (; size >= 8; data += 8, size -= 8) {
    const uint64_t word = Load64(data) ^ state;
    state = 0;
    for (int i = 0; i < 8; ++i) state ^= kSlicing[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (; size > 0; ++data, --size) {
    state = kSlicing[0][(state ^ static_cast<uint8_t>(*data)) & 0xff] ^ (state >> 8);
  }
  return ~state;
}

}  // namespace internal

#if defined(__x86_64__)

namespace {

// The instruction takes three cycles but one can start in each, so three independent stretches are
// summed side by side. Joining them needs the effect of a stretch of zero bytes on a checksum: a
// linear map of 32 bits, kept as four tables of one byte each.
using ShiftTables = std::array<ByteTable, 4>;
using BitMatrix = std::array<uint32_t, 32>;

constexpr uint32_t Multiply(const BitMatrix& matrix, uint32_t vector) {
  uint32_t product = 0;
  for (size_t bit = 0; bit < 32; ++bit) product ^= ((vector >> bit) & 1) ? matrix[bit] : 0;
  return product;
}

// The map of 2^log2_bytes zero bytes, from that of one by repeated squaring.
constexpr ShiftTables MakeShiftTables(int log2_bytes) {
  BitMatrix matrix{};
  for (size_t bit = 0; bit < 32; ++bit) {
    const uint32_t unit = 1u << bit;
    matrix[bit] = kSlicing[0][unit & 0xff] ^ (unit >> 8);
  }
  for (int step = 0; step < log2_bytes; ++step) {
    BitMatrix squared{};
    for (size_t bit = 0; bit < 32; ++bit) squared[bit] = Multiply(matrix, matrix[bit]);
    matrix = squared;
  }
  ShiftTables tables{};
  for (uint32_t position = 0; position < 4; ++position) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      tables[position][byte] = Multiply(matrix, byte << (8 * position));
    }
  }
  return tables;
}

template <int kLog2Bytes>
struct Shift {
  static constexpr ShiftTables kTables = MakeShiftTables(kLog2Bytes);

  static uint32_t Apply(uint32_t state) {
    return kTables[0][state & 0xff] ^ kTables[1][(state >> 8) & 0xff] ^
           kTables[2][(state >> 16) & 0xff] ^ kTables[3][state >> 24];
  }
};

// Consumes as many triple stretches of 2^kLog2Bytes bytes as there are.
template <int kLog2Bytes>
__attribute__((target("sse4.2"))) uint64_t ExtendInterleaved(uint64_t state,
                                                             std::string_view* bytes) {
  constexpr size_t kStretch = size_t{1} << kLog2Bytes;
  while (bytes->size() >= 3 * kStretch) {
    const char* data = bytes->data();
    uint64_t second = 0;
    uint64_t third = 0;
    for (const char* end = data + kStretch; data < end; data += 8) {
      state = _mm_crc32_u64(state, Load64(data));
      second = _mm_crc32_u64(second, Load64(data + kStretch));
      third = _mm_crc32_u64(third, Load64(data + 2 * kStretch));
    }
    using Join = Shift<kLog2Bytes>;
    state = Join::Apply(Join::Apply(static_cast<uint32_t>(state)) ^ static_cast<uint32_t>(second)) ^
            third;
    bytes->remove_prefix(3 * kStretch);
  }
  return state;
}

__attribute__((target("sse4.2"))) uint32_t ExtendSse42(uint32_t crc, std::string_view bytes) {
  uint64_t state = static_cast<uint32_t>(~crc);
  state = ExtendInterleaved<12>(state, &bytes);
  state = ExtendInterleaved<8>(state, &bytes);
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    state = _mm_crc32_u64(state, Load64(bytes.data()));
  }
  uint32_t narrow = static_cast<uint32_t>(state);
  for (const char byte : bytes) narrow = _mm_crc32_u8(narrow, static_cast<uint8_t>(byte));
  return ~narrow;
}

}  // namespace

internal::ExtendFunction internal::HardwareExtend() {
  return __builtin_cpu_supports("sse4.2") ? ExtendSse42 : nullptr;
}

#else

internal::ExtendFunction internal::HardwareExtend() { return nullptr; }

#endif

uint32_t Extend(uint32_t crc, std::string_view bytes) {
  static const internal::ExtendFunction extend =
      internal::HardwareExtend() != nullptr ? internal::HardwareExtend() : internal::ExtendPortable;
  return extend(crc, bytes);
}

}  // namespace crc32c
}  // namespace adaptcp
