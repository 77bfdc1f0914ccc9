// SPDX-License-Identifier: Apache-2.0
// The segments of a checkpoint, newest first.

#ifndef ADAPTCP_ENGINE_SEGMENT_CHAIN_H_
#define ADAPTCP_ENGINE_SEGMENT_CHAIN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "custom_ops/engine/segment_reader.h"
#include "custom_ops/io/file_system.h"

namespace adaptcp {

struct RestoreFile {
  std::string path;
  SegmentKind kind = SegmentKind::kBase;
  uint32_t interval = 0;
  uint32_t shard = 0;  // of those at the time of the save
  // What the manifest says of the file; another file in its place is refused.
  uint64_t bytes = 0;
  uint32_t footer_crc = 0;
};

// What all segments of a chain have in common.
struct ChainIdentity {
  std::string group;
  uint32_t num_shards = 1;  // at the time of the save
  KeyType key_type = KeyType::kInt64;
};

class SegmentChain {
 public:
  SegmentChain() = default;
  ~SegmentChain();
  SegmentChain(const SegmentChain&) = delete;
  SegmentChain& operator=(const SegmentChain&) = delete;

  // Opens the segments: of all shards that are read, the differentials, the increments by falling
  // interval, the bases. `files` outlives the chain. InvalidArgument when one is of another group;
  // DataLoss when one is damaged or not the file meant.
  Status Open(FileSystem* files, const ChainIdentity& identity,
              const std::vector<RestoreFile>& newest_first, size_t threads);

  size_t size() const { return segments_.size(); }
  const SegmentReader& reader(size_t segment) const { return *segments_[segment].reader; }
  SegmentKind kind(size_t segment) const { return segments_[segment].file.kind; }

  // Whether two segments are of one cut and kind: a key has one shard, so it stands in one of them.
  bool SameCut(size_t segment, size_t other) const;

  // How many rows there are at least: those of one cut.
  size_t FewestRows() const;

 private:
  struct Segment {
    RestoreFile file;
    std::unique_ptr<SegmentReader> reader;
    bool counted = false;  // among the files that the process keeps open
  };

  static Status CheckHeader(const ChainIdentity& identity, const RestoreFile& file,
                            const SegmentHeader& header);

  std::vector<Segment> segments_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_SEGMENT_CHAIN_H_
