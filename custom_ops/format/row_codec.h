// SPDX-License-Identifier: Apache-2.0
// Rows of one table to the bytes of a value record and back: raw, or smaller and not exact.

#ifndef ADAPTCP_FORMAT_ROW_CODEC_H_
#define ADAPTCP_FORMAT_ROW_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "custom_ops/format/segment_header.h"

namespace adaptcp {

// What is encoded and what stays raw is decided by dtype and dim alone: only float32 and float64
// are encoded, and only where it makes rows smaller.
class RowCodec {
 public:
  RowCodec(const TableSpec& table, Encoding encoding);
  // Of table number `table` of a segment.
  RowCodec(const SegmentHeader& header, size_t table)
      : RowCodec(header.tables[table], header.EncodingOf(table)) {}

  // Rows are stored as they are.
  bool raw() const { return encoding_ == Encoding::kRaw; }
  // Bytes of a row in a value record.
  size_t encoded_bytes() const { return encoded_bytes_; }

  // n rows of the table, row_bytes each, to n encoded rows. A row of zero bytes becomes zero bytes.
  void Encode(const char* rows, size_t n, char* encoded) const;
  // The other way; any bytes give some row.
  void Decode(const char* encoded, size_t n, char* rows) const;

 private:
  template <typename Value>
  void EncodeRow(const char* row, char* encoded) const;
  template <typename Value>
  void DecodeRow(const char* encoded, char* row) const;
  template <typename Value>
  void QuantizeRow(const char* row, char* encoded) const;
  template <typename Value>
  void DequantizeRow(const char* encoded, char* row) const;

  Encoding encoding_;
  bool double_values_;
  size_t dim_;
  size_t row_bytes_;
  size_t encoded_bytes_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_FORMAT_ROW_CODEC_H_
