// SPDX-License-Identifier: Apache-2.0
// Half-precision rows, and quantised ones: per vector the two ends of a range, then a code of a few
// bits for each value.

#include "custom_ops/format/row_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace adaptcp {
namespace {

// Two float32: the ends of the range.
constexpr size_t kRangeBytes = 8;
// The range is narrowed in steps of this part of it, for codes of at most so many bits, at most so
// often (Eisenman et al., Check-N-Run, NSDI 2022: down to 0.6 of the range).
constexpr double kNarrowingStep = 1.0 / 25;
constexpr int kNarrowingSteps = 10;
constexpr int kMaxNarrowedBits = 4;

// Bits of a code; 0 when the encoding has none.
int CodeBits(Encoding encoding) {
  switch (encoding) {
    case Encoding::kInt2:
      return 2;
    case Encoding::kInt3:
      return 3;
    case Encoding::kInt4:
      return 4;
    case Encoding::kInt8:
      return 8;
    case Encoding::kRaw:
    case Encoding::kFloat16:
    case Encoding::kBfloat16:
      break;
  }
  return 0;
}

struct Range {
  double low;
  double high;
};

// Codes of one range. Values outside take the code of the nearer end.
class Quantizer {
 public:
  Quantizer(const Range& range, int bits)
      : low_(range.low),
        levels_((1 << bits) - 1),
        step_((range.high - range.low) / levels_),
        // A step may be so small that its inverse is infinite.
        codes_per_unit_(step_ > 0 && std::isfinite(1 / step_) ? 1 / step_ : 0) {}

  uint32_t CodeOf(double value) const {
    const double code = std::clamp((value - low_) * codes_per_unit_, 0.0, levels_);
    return static_cast<uint32_t>(code + 0.5);
  }
  double ValueOf(uint32_t code) const { return low_ + step_ * code; }

 private:
  const double low_;
  const double levels_;
  const double step_;
  const double codes_per_unit_;
};

template <typename Value>
Value ValueAt(const char* row, size_t i) {
  Value value;
  std::memcpy(&value, row + i * sizeof(Value), sizeof(Value));
  return value;
}

template <typename Value>
double SquaredError(const char* row, size_t dim, const Quantizer& quantizer) {
  double sum = 0;
  for (size_t i = 0; i < dim; ++i) {
    const double value = ValueAt<Value>(row, i);
    const double error = value - quantizer.ValueOf(quantizer.CodeOf(value));
    sum += error * error;
  }
  return sum;
}

// Greedily narrows the range from one end or the other; a few bits spend their codes better where
// most values are than on the outermost ones.
template <typename Value>
Range Narrowed(const char* row, size_t dim, int bits, const Range& full) {
  const double step = (full.high - full.low) * kNarrowingStep;
  Range best = full;
  double least = SquaredError<Value>(row, dim, Quantizer(full, bits));
  Range range = full;
  for (int i = 0; i < kNarrowingSteps && least > 0; ++i) {
    const Range raised{range.low + step, range.high};
    const Range lowered{range.low, range.high - step};
    const double raised_error = SquaredError<Value>(row, dim, Quantizer(raised, bits));
    const double lowered_error = SquaredError<Value>(row, dim, Quantizer(lowered, bits));
    range = raised_error < lowered_error ? raised : lowered;
    const double error = std::min(raised_error, lowered_error);
    if (error < least) {
      least = error;
      best = range;
    }
  }
  return best;
}

// What float32 cannot hold counts as not finite.
template <typename Value>
Range FullRange(const char* row, size_t dim) {
  Range range{ValueAt<Value>(row, 0), ValueAt<Value>(row, 0)};
  bool finite = true;
  for (size_t i = 0; i < dim; ++i) {
    const double value = ValueAt<Value>(row, i);
    finite &= std::abs(value) <= std::numeric_limits<float>::max();
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  if (finite) return range;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  return Range{kNan, kNan};
}

float ToFloat(float value) { return value; }
// Finite values beyond the largest become that.
float ToFloat(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::isfinite(value) ? std::clamp(value, -kLargest, kLargest) : value);
}

// Rounds to the nearest, ties to even. Finite values beyond the largest become that.
uint16_t ToFloat16(float value) {
  constexpr uint16_t kLargest = 0x7bff;  // 65504
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude == 0x7f800000) return sign | 0x7c00;
  if (magnitude >= 0x477ff000) return sign | kLargest;  // 65520, which would round to infinity
  if (magnitude < 0x38800000) {
    // Below 2^-14 a step is 2^-24: adding 0.5, whose steps are of that size, rounds the value.
    float rounded;
    std::memcpy(&rounded, &magnitude, sizeof(rounded));
    rounded += 0.5f;
    std::memcpy(&bits, &rounded, sizeof(bits));
    return static_cast<uint16_t>(sign | (bits - 0x3f000000));
  }
  const uint32_t rebased = magnitude - (112u << 23);
  return static_cast<uint16_t>(sign | ((rebased + 0xfff + (rebased >> 13 & 1)) >> 13));
}

float FromFloat16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  uint32_t bits;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    std::memcpy(&bits, &magnitude, sizeof(bits));
  } else if (exponent == 0x1f) {
    bits = 0x7f800000 | fraction << 13;
  } else {
    bits = (exponent + 112) << 23 | fraction << 13;
  }
  bits |= sign;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// As ToFloat16.
uint16_t ToBfloat16(float value) {
  constexpr uint16_t kLargest = 0x7f7f;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7fc0;
  if (magnitude == 0x7f800000) return sign | 0x7f80;
  const uint32_t rounded = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;
  return static_cast<uint16_t>(sign | std::min<uint32_t>(rounded, kLargest));
}

float FromBfloat16(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void StoreRange(const Range& range, char* encoded) {
  const float ends[2] = {static_cast<float>(range.low), static_cast<float>(range.high)};
  static_assert(sizeof(ends) == kRangeBytes);
  std::memcpy(encoded, ends, kRangeBytes);
}

Range LoadRange(const char* encoded) {
  float ends[2];
  std::memcpy(ends, encoded, kRangeBytes);
  return Range{ends[0], ends[1]};
}

}  // namespace

RowCodec::RowCodec(const TableSpec& table, Encoding encoding)
    : encoding_(encoding),
      double_values_(table.dtype == "float64"),
      dim_(table.dim),
      row_bytes_(table.row_bytes),
      encoded_bytes_(CodeBits(encoding) == 0 ? dim_ * sizeof(uint16_t)
                                             : kRangeBytes + (dim_ * CodeBits(encoding) + 7) / 8) {
  const bool floats = double_values_ || table.dtype == "float32";
  if (!floats || encoded_bytes_ >= row_bytes_) encoding_ = Encoding::kRaw;
  if (encoding_ == Encoding::kRaw) encoded_bytes_ = row_bytes_;
}

void RowCodec::Encode(const char* rows, size_t n, char* encoded) const {
  if (raw()) {
    std::memcpy(encoded, rows, n * row_bytes_);
    return;
  }
  for (size_t i = 0; i < n; ++i, rows += row_bytes_, encoded += encoded_bytes_) {
    double_values_ ? EncodeRow<double>(rows, encoded) : EncodeRow<float>(rows, encoded);
  }
}

void RowCodec::Decode(const char* encoded, size_t n, char* rows) const {
  if (raw()) {
    std::memcpy(rows, encoded, n * row_bytes_);
    return;
  }
  for (size_t i = 0; i < n; ++i, rows += row_bytes_, encoded += encoded_bytes_) {
    double_values_ ? DecodeRow<double>(encoded, rows) : DecodeRow<float>(encoded, rows);
  }
}

template <typename Value>
void RowCodec::EncodeRow(const char* row, char* encoded) const {
  if (CodeBits(encoding_) > 0) return QuantizeRow<Value>(row, encoded);
  for (size_t i = 0; i < dim_; ++i) {
    const float value = ToFloat(ValueAt<Value>(row, i));
    const uint16_t half = encoding_ == Encoding::kFloat16 ? ToFloat16(value) : ToBfloat16(value);
    std::memcpy(encoded + i * sizeof(half), &half, sizeof(half));
  }
}

template <typename Value>
void RowCodec::DecodeRow(const char* encoded, char* row) const {
  if (CodeBits(encoding_) > 0) return DequantizeRow<Value>(encoded, row);
  for (size_t i = 0; i < dim_; ++i) {
    const auto half = ValueAt<uint16_t>(encoded, i);
    const Value value = encoding_ == Encoding::kFloat16 ? FromFloat16(half) : FromBfloat16(half);
    std::memcpy(row + i * sizeof(value), &value, sizeof(value));
  }
}

template <typename Value>
void RowCodec::QuantizeRow(const char* row, char* encoded) const {
  const int bits = CodeBits(encoding_);
  Range range = FullRange<Value>(row, dim_);
  std::memset(encoded + kRangeBytes, 0, encoded_bytes_ - kRangeBytes);
  if (std::isnan(range.low)) {
    StoreRange(range, encoded);
    return;
  }
  if (bits <= kMaxNarrowedBits) range = Narrowed<Value>(row, dim_, bits, range);
  StoreRange(range, encoded);
  const Quantizer quantizer(LoadRange(encoded), bits);
  for (size_t i = 0; i < dim_; ++i) {
    // A code of 3 bits may lie in two bytes.
    const uint32_t code = quantizer.CodeOf(ValueAt<Value>(row, i)) << (i * bits % 8);
    char* const place = encoded + kRangeBytes + i * bits / 8;
    place[0] = static_cast<char>(place[0] | code);
    if (code > 0xff) place[1] = static_cast<char>(place[1] | (code >> 8));
  }
}

template <typename Value>
void RowCodec::DequantizeRow(const char* encoded, char* row) const {
  const int bits = CodeBits(encoding_);
  const Quantizer quantizer(LoadRange(encoded), bits);
  const uint32_t mask = (1u << bits) - 1;
  for (size_t i = 0; i < dim_; ++i) {
    const char* const place = encoded + kRangeBytes + i * bits / 8;
    const size_t shift = i * bits % 8;
    uint32_t code = static_cast<uint8_t>(place[0]);
    if (shift + bits > 8) code |= static_cast<uint32_t>(static_cast<uint8_t>(place[1])) << 8;
    const Value value = static_cast<Value>(quantizer.ValueOf(code >> shift & mask));
    std::memcpy(row + i * sizeof(Value), &value, sizeof(Value));
  }
}

}  // namespace adaptcp
