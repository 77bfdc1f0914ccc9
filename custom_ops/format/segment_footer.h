// SPDX-License-Identifier: Apache-2.0
// The last two records of a segment: the index of its blocks, and the trailer that finds the index.

#ifndef ADAPTCP_FORMAT_SEGMENT_FOOTER_H_
#define ADAPTCP_FORMAT_SEGMENT_FOOTER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "custom_ops/base/status.h"
#include "custom_ops/format/coding.h"
#include "custom_ops/format/record_framing.h"
#include "custom_ops/format/segment_header.h"

namespace adaptcp {

struct BlockIndexEntry {
  uint32_t rows = 0;
  bool tombstones = false;
  RecordRef keys;
  std::vector<RecordRef> values;  // one per table; none in a block of tombstones

  uint64_t end() const { return values.empty() ? keys.end() : values.back().end(); }
  bool operator==(const BlockIndexEntry& other) const;
};

// Holds the checksum of every record before it, so that the footer's own checksum, which the
// manifest keeps, stands for the whole file.
struct SegmentFooter {
  uint32_t num_tables = 0;
  RecordRef header;
  std::vector<BlockIndexEntry> blocks;
  uint64_t rows = 0;  // without tombstones
  uint64_t tombstones = 0;

  bool operator==(const SegmentFooter& other) const;
  std::string DebugString() const;
};

// Appends the payload of the footer record.
void EncodeSegmentFooter(const SegmentFooter& footer, std::string* out);

// DataLoss on bytes that are no footer or whose totals are not the sums of its blocks.
Status DecodeSegmentFooter(std::string_view payload, const Origin& origin, SegmentFooter* footer);

// DataLoss unless the records of `footer`, which lies at `footer_ref`, follow each other from the
// start of the file up to the footer without gap or overlap. Makes every length in the index
// smaller than the file.
Status CheckFooterLayout(const SegmentFooter& footer, const RecordRef& footer_ref,
                         const std::string& path);

// DataLoss unless the index fits the tables of the segment's header.
Status CheckFooterFitsHeader(const SegmentFooter& footer, const RecordRef& footer_ref,
                             const SegmentHeader& header, const std::string& path);

// The whole trailer record, framing included: the same size in every format version.
constexpr size_t kTrailerRecordBytes = kFrameBytes + 32;

// Appends the trailer record, framing included.
void AppendTrailerRecord(const RecordRef& footer_ref, std::string* out);

// Where the footer lies, from the last kTrailerRecordBytes bytes of a file; `origin` is the
// offset of those bytes. DataLoss unless the footer ends where the trailer begins.
Status DecodeTrailerRecord(std::string_view record, const Origin& origin, RecordRef* footer_ref);

}  // namespace adaptcp

#endif  // ADAPTCP_FORMAT_SEGMENT_FOOTER_H_
