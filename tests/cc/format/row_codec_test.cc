// SPDX-License-Identifier: Apache-2.0
// Quantised rows: how far they may be off, how large they are, and what stays raw.

#include "custom_ops/format/row_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace {

constexpr Encoding kQuantized[] = {Encoding::kInt2, Encoding::kInt3, Encoding::kInt4,
                                   Encoding::kInt8};

int Bits(Encoding encoding) { return EncodingName(encoding)[3] - '0'; }

// The row as it comes back.
template <typename Value>
std::vector<Value> RoundTrip(const std::vector<Value>& row, const std::string& dtype,
                             Encoding encoding) {
  const RowCodec codec(MakeTable("t", dtype, static_cast<uint32_t>(row.size())), encoding);
  // Guards on both sides: nothing may be written outside.
  std::string encoded(codec.encoded_bytes() + 2, '\x5a');
  codec.Encode(reinterpret_cast<const char*>(row.data()), 1, &encoded[1]);
  EXPECT_EQ(encoded.front(), '\x5a');
  EXPECT_EQ(encoded.back(), '\x5a');
  std::vector<Value> decoded(row.size());
  codec.Decode(&encoded[1], 1, reinterpret_cast<char*>(decoded.data()));
  return decoded;
}

// What plain asymmetric quantisation makes of the row: round((x - min) / (max - min) levels).
std::vector<float> PlainRoundTrip(const std::vector<float>& row, int bits) {
  const auto [low, high] = std::minmax_element(row.begin(), row.end());
  const double levels = (1 << bits) - 1;
  const double width = static_cast<double>(*high) - *low;
  std::vector<float> result;
  for (float value : row) {
    const double code = width > 0 ? std::round((value - *low) / width * levels) : 0;
    result.push_back(static_cast<float>(*low + width * code / levels));
  }
  return result;
}

double SquaredError(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  }
  return sum;
}

std::vector<float> NormalRow(size_t dim, std::mt19937* random) {
  std::normal_distribution<float> normal(0.01f, 0.1f);
  std::vector<float> row(dim);
  for (float& value : row) value = normal(*random);
  return row;
}

TEST(RowCodecTest, ARowTakesItsRangeAndSoManyBitsAValue) {
  const TableSpec table = MakeTable("t", "float32", 17);
  EXPECT_EQ(RowCodec(table, Encoding::kRaw).encoded_bytes(), 68u);
  EXPECT_EQ(RowCodec(table, Encoding::kInt2).encoded_bytes(), 8u + 5);  // 34 bits
  EXPECT_EQ(RowCodec(table, Encoding::kInt3).encoded_bytes(), 8u + 7);  // 51 bits
  EXPECT_EQ(RowCodec(table, Encoding::kInt4).encoded_bytes(), 8u + 9);
  EXPECT_EQ(RowCodec(table, Encoding::kInt8).encoded_bytes(), 8u + 17);
}

TEST(RowCodecTest, EveryByteOfARow) {
  // -1 and 2 are the ends; narrowing cannot help values that lie on the codes.
  const std::vector<float> row = {-1.0f, 0.0f, 1.0f, 2.0f, 2.0f};
  const RowCodec codec(MakeTable("t", "float32", 5), Encoding::kInt2);
  std::string encoded(codec.encoded_bytes(), '\0');
  codec.Encode(reinterpret_cast<const char*>(row.data()), 1, encoded.data());
  EXPECT_EQ(encoded, std::string("\x00\x00\x80\xbf\x00\x00\x00\x40\xe4\x03", 10));
}

TEST(RowCodecTest, EightBitsAreOffByHalfAStepAtMost) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    const std::vector<float> row = NormalRow(1 + random() % 40 + 3, &random);
    const std::vector<float> decoded = RoundTrip(row, "float32", Encoding::kInt8);
    const auto [low, high] = std::minmax_element(row.begin(), row.end());
    const double half_step = (static_cast<double>(*high) - *low) / 255 / 2;
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_LE(std::abs(static_cast<double>(decoded[i]) - row[i]), half_step * 1.0001);
    }
  }
}

TEST(RowCodecTest, FewBitsAreNeverWorseThanThePlainRangeAndOftenBetter) {
  for (Encoding encoding : {Encoding::kInt2, Encoding::kInt3, Encoding::kInt4}) {
    std::mt19937 random(2);
    double plain = 0;
    double narrowed = 0;
    for (int round = 0; round < 300; ++round) {
      const std::vector<float> row = NormalRow(32, &random);
      const double plain_error = SquaredError(row, PlainRoundTrip(row, Bits(encoding)));
      const double error = SquaredError(row, RoundTrip(row, "float32", encoding));
      EXPECT_LE(error, plain_error * 1.0001 + 1e-12);
      plain += plain_error;
      narrowed += error;
    }
    EXPECT_LT(narrowed, 0.97 * plain) << EncodingName(encoding);
  }
}

TEST(RowCodecTest, MoreBitsAreNearer) {
  std::mt19937 random(3);
  const std::vector<float> row = NormalRow(64, &random);
  double before = std::numeric_limits<double>::infinity();
  for (Encoding encoding : kQuantized) {
    const double error = SquaredError(row, RoundTrip(row, "float32", encoding));
    EXPECT_LT(error, before);
    before = error;
  }
}

TEST(RowCodecTest, EqualValuesAndZerosComeBackExactly) {
  for (Encoding encoding : kQuantized) {
    for (float value : {0.0f, 0.1f, -3e-38f, std::numeric_limits<float>::max()}) {
      const std::vector<float> row(16, value);
      EXPECT_EQ(RoundTrip(row, "float32", encoding), row) << EncodingName(encoding);
    }
    const RowCodec codec(MakeTable("t", "float32", 16), encoding);
    const std::string zeros(64, '\0');
    std::string encoded(codec.encoded_bytes(), '\x11');
    codec.Encode(zeros.data(), 1, encoded.data());
    EXPECT_EQ(encoded, std::string(codec.encoded_bytes(), '\0'));
  }
}

TEST(RowCodecTest, WidestRangeOverflowsNothing) {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (Encoding encoding : kQuantized) {
    const std::vector<float> row = {-kMax, -kMax, kMax, kMax, -kMax, kMax, kMax, kMax};
    EXPECT_EQ(RoundTrip(row, "float32", encoding), row);
  }
}

TEST(RowCodecTest, RangesTooSmallToDivideBecomeTheirLowerEnd) {
  for (Encoding encoding : kQuantized) {
    const std::vector<double> row = {0.0, 1e-310, 0.0, 5e-324};
    for (double value : RoundTrip(row, "float64", encoding)) EXPECT_EQ(value, 0.0);
    const std::vector<float> floats = {0.0f, 1e-45f, 0.0f, 1e-45f};
    for (float value : RoundTrip(floats, "float32", encoding)) EXPECT_GE(1e-45f, value);
  }
}

TEST(RowCodecTest, ARowThatIsNotFiniteComesBackAsNoNumber) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (Encoding encoding : kQuantized) {
    for (double bad : {kInfinity, -kInfinity, kNan}) {
      for (size_t place : {0, 3, 7}) {
        std::vector<float> row = {1, 2, 3, 4, 5, 6, 7, 8};
        row[place] = static_cast<float>(bad);
        for (float value : RoundTrip(row, "float32", encoding)) EXPECT_TRUE(std::isnan(value));
      }
    }
    const std::vector<double> beyond_float = {1, 2, 3, 1e300};
    for (double value : RoundTrip(beyond_float, "float64", encoding)) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(RowCodecTest, DoublesAreQuantisedToo) {
  const std::vector<double> row = {-1.0, 0.0, 1.0, 2.0};
  EXPECT_EQ(RoundTrip(row, "float64", Encoding::kInt2), row);
}

TEST(RowCodecTest, WhatWouldGrowOrIsNoFloatStaysRaw) {
  const std::vector<float> narrow = {1.25f, 2.5f};
  EXPECT_EQ(RoundTrip(narrow, "float32", Encoding::kInt2), narrow);
  const std::vector<int64_t> counters = {1, 2, 3, 1'000'000'000'000};
  EXPECT_EQ(RoundTrip(counters, "int64", Encoding::kInt2), counters);
  EXPECT_TRUE(RowCodec(MakeTable("t", "bfloat16", 64), Encoding::kInt8).raw());
  EXPECT_TRUE(RowCodec(MakeTable("t", "float32", 2), Encoding::kInt8).raw());
  EXPECT_FALSE(RowCodec(MakeTable("t", "float32", 3), Encoding::kInt8).raw());
}

TEST(RowCodecTest, RowsAreEncodedEachForItself) {
  std::mt19937 random(4);
  const RowCodec codec(MakeTable("t", "float32", 8), Encoding::kInt3);
  std::string rows;
  std::string one_by_one;
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> row = NormalRow(8, &random);
    const std::string bytes(reinterpret_cast<const char*>(row.data()), 32);
    std::string encoded(codec.encoded_bytes(), '\0');
    codec.Encode(bytes.data(), 1, encoded.data());
    rows += bytes;
    one_by_one += encoded;
  }
  std::string together(one_by_one.size(), '\0');
  codec.Encode(rows.data(), 20, together.data());
  EXPECT_EQ(together, one_by_one);
}

TEST(RowCodecTest, HalfPrecisionTakesTheNearestValue) {
  std::mt19937 random(6);
  std::uniform_real_distribution<float> exponent(-20, 15);
  for (int round = 0; round < 2000; ++round) {
    const float value = (random() % 2 ? 1.0f : -1.0f) * std::exp2(exponent(random));
    const std::vector<float> row(2, value);
    // 10 and 7 bits of fraction; a float16 below 2^-14 has fixed steps of 2^-24.
    const float half_step = std::max(std::abs(value) * 0x1p-11f, 0x1p-25f);
    EXPECT_LE(std::abs(RoundTrip(row, "float32", Encoding::kFloat16)[1] - value), half_step);
    EXPECT_LE(std::abs(RoundTrip(row, "float32", Encoding::kBfloat16)[1] - value),
              std::abs(value) * 0x1p-8f);
  }
}

TEST(RowCodecTest, EveryFloat16AndBfloat16ComesBackExactly) {
  for (Encoding encoding : {Encoding::kFloat16, Encoding::kBfloat16}) {
    const RowCodec codec(MakeTable("t", "float32", 1), encoding);
    for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      float value;
      codec.Decode(reinterpret_cast<const char*>(&half), 1, reinterpret_cast<char*>(&value));
      uint16_t again;
      codec.Encode(reinterpret_cast<const char*>(&value), 1, reinterpret_cast<char*>(&again));
      if (std::isnan(value)) {
        float decoded;
        codec.Decode(reinterpret_cast<const char*>(&again), 1, reinterpret_cast<char*>(&decoded));
        EXPECT_TRUE(std::isnan(decoded));
      } else {
        ASSERT_EQ(again, half) << EncodingName(encoding);
      }
    }
  }
}

TEST(RowCodecTest, HalfPrecisionRoundsTiesToEvenAndKeepsFiniteValuesFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kMax = std::numeric_limits<float>::max();
  const auto float16 = [](float value) {
    return RoundTrip(std::vector<float>{value}, "float32", Encoding::kFloat16)[0];
  };
  const auto bfloat16 = [](float value) {
    return RoundTrip(std::vector<float>{value}, "float32", Encoding::kBfloat16)[0];
  };
  EXPECT_EQ(float16(1 + 0x1p-11f), 1.0f);
  EXPECT_EQ(float16(1 + 0x3p-11f), 1 + 0x1p-9f);
  EXPECT_EQ(float16(0x1p-25f), 0.0f);
  EXPECT_EQ(float16(0x3p-25f), 0x1p-23f);
  EXPECT_EQ(float16(65519.0f), 65504.0f);
  EXPECT_EQ(float16(65520.0f), 65504.0f);
  EXPECT_EQ(float16(-kMax), -65504.0f);
  EXPECT_EQ(float16(-kInfinity), -kInfinity);
  EXPECT_EQ(bfloat16(1 + 0x1p-8f), 1.0f);
  EXPECT_EQ(bfloat16(1 + 0x3p-8f), 1 + 0x1p-6f);
  EXPECT_LT(bfloat16(kMax), kInfinity);
  EXPECT_EQ(bfloat16(kInfinity), kInfinity);
  EXPECT_EQ(RoundTrip(std::vector<double>{1e300, 0.5}, "float64", Encoding::kBfloat16)[1], 0.5);
}

TEST(RowCodecTest, HalfPrecisionHalvesARow) {
  EXPECT_EQ(RowCodec(MakeTable("t", "float32", 1), Encoding::kFloat16).encoded_bytes(), 2u);
  EXPECT_EQ(RowCodec(MakeTable("t", "float64", 3), Encoding::kBfloat16).encoded_bytes(), 6u);
  EXPECT_TRUE(RowCodec(MakeTable("t", "float16", 64), Encoding::kBfloat16).raw());
  EXPECT_TRUE(RowCodec(MakeTable("t", "int32", 64), Encoding::kFloat16).raw());
}

TEST(RowCodecTest, AnyBytesGiveSomeRow) {
  std::mt19937 random(5);
  for (int round = 0; round < 5000; ++round) {
    for (Encoding encoding : kQuantized) {
      const uint32_t dim = 3 + random() % 30;
      const RowCodec codec(MakeTable("t", "float32", dim), encoding);
      std::string encoded;
      for (size_t i = 0; i < codec.encoded_bytes(); ++i) encoded += static_cast<char>(random());
      std::vector<float> row(dim);
      codec.Decode(encoded.data(), 1, reinterpret_cast<char*>(row.data()));
    }
  }
}

}  // namespace
}  // namespace adaptcp
