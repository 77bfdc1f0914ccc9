// SPDX-License-Identifier: Apache-2.0
// Quantised rows: per vector the two ends of a range, then a code of a few bits for each value.

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
        codes_per_unit_(step_ > 0 ? 1 / step_ : 0) {}

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
      encoded_bytes_(kRangeBytes + (dim_ * CodeBits(encoding) + 7) / 8) {
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
void RowCodec::DecodeRow(const char* encoded, char* row) const {
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
