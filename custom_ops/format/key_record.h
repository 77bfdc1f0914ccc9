// SPDX-License-Identifier: Apache-2.0
// Key records: the keys of a block with what the tracker knows of them, without their values.

#ifndef ADAPTCP_FORMAT_KEY_RECORD_H_
#define ADAPTCP_FORMAT_KEY_RECORD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "custom_ops/base/status.h"
#include "custom_ops/format/coding.h"
#include "custom_ops/format/row_block.h"
#include "custom_ops/format/segment_header.h"

namespace adaptcp {

// True when the block, which must not be empty, holds tombstones.
bool HoldsTombstones(const RowBlock& block);

// InvalidArgument when a segment with this header cannot hold `block`: arrays of unequal length,
// keys of another type, rows mixed with tombstones, columns that are not the header's tables.
// Columns may be longer than the block has rows.
Status ValidateRowBlock(const RowBlock& block, const SegmentHeader& header);

// Appends the payload of the key record of `block`, which must be valid and not empty.
void EncodeKeyRecord(const RowBlock& block, uint32_t block_number, std::string* out);

// Sets all of `block` but the columns' values, which are left empty. DataLoss on anything
// EncodeKeyRecord could not have written for a segment with this header.
Status DecodeKeyRecord(std::string_view payload, const Origin& origin, const SegmentHeader& header,
                       uint32_t* block_number, RowBlock* block);

}  // namespace adaptcp

#endif  // ADAPTCP_FORMAT_KEY_RECORD_H_
