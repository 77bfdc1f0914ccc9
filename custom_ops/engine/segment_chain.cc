// SPDX-License-Identifier: Apache-2.0
// Opening a chain.

#include "custom_ops/engine/segment_chain.h"

#include <algorithm>
#include <atomic>

#include "custom_ops/engine/parallel_for.h"

namespace adaptcp {
namespace {

// A chain of increments may have more files than a process may have open, and several chains are
// read side by side.
constexpr size_t kMaxOpenFiles = 256;
std::atomic<size_t> open_files{0};

}  // namespace

Status SegmentChain::Open(FileSystem* files, const ChainIdentity& identity,
                          const std::vector<RestoreFile>& newest_first, size_t threads) {
  segments_.resize(newest_first.size());
  return ParallelFor(newest_first.size(), threads, [&](size_t i) {
    const RestoreFile& file = newest_first[i];
    Segment& segment = segments_[i];
    segment.file = file;
    ADAPTCP_RETURN_IF_ERROR(SegmentReader::Open(files, file.path, &segment.reader));
    const SegmentReader& reader = *segment.reader;
    if (reader.bytes() != file.bytes || reader.footer_crc() != file.footer_crc) {
      return DataLoss(file.path, ": not the segment that the manifest names; expected ", file.bytes,
                      " bytes with footer checksum ", file.footer_crc, ", found ", reader.bytes(),
                      " bytes with ", reader.footer_crc());
    }
    ADAPTCP_RETURN_IF_ERROR(CheckHeader(identity, file, reader.header()));
    segment.counted = ++open_files <= kMaxOpenFiles;
    if (!segment.counted) {
      --open_files;
      segment.reader->CloseFile();
    }
    return Status::OK();
  });
}

SegmentChain::~SegmentChain() {
  for (const Segment& segment : segments_) {
    if (segment.counted) --open_files;
  }
}

Status SegmentChain::CheckHeader(const ChainIdentity& identity, const RestoreFile& file,
                                 const SegmentHeader& header) {
  if (header.group != identity.group || header.shard != file.shard ||
      header.num_shards != identity.num_shards || header.key_type != identity.key_type) {
    return InvalidArgument(file.path, ": expected rows of group '", identity.group, "' shard ",
                           file.shard, " of ", identity.num_shards, " with ",
                           KeyTypeName(identity.key_type), " keys, found group '", header.group,
                           "' shard ", header.shard, " of ", header.num_shards, " with ",
                           KeyTypeName(header.key_type), " keys");
  }
  if (header.kind != file.kind || header.interval != file.interval) {
    return DataLoss(file.path, ": expected the ", SegmentKindName(file.kind), " of interval ",
                    file.interval, ", found the ", SegmentKindName(header.kind), " of interval ",
                    header.interval);
  }
  return Status::OK();
}

bool SegmentChain::SameCut(size_t segment, size_t other) const {
  const RestoreFile& a = segments_[segment].file;
  const RestoreFile& b = segments_[other].file;
  return a.kind == b.kind && a.interval == b.interval;
}

size_t SegmentChain::FewestRows() const {
  size_t most = 0;
  size_t rows = 0;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const bool same_cut = i > 0 && SameCut(i, i - 1);
    rows = (same_cut ? rows : 0) + segments_[i].reader->rows();
    most = std::max(most, rows);
  }
  return most;
}

}  // namespace adaptcp
