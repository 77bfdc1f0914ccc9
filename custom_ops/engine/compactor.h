// SPDX-License-Identifier: Apache-2.0
// Merges the chain of one shard into a new base, from file to file, without any table.

#ifndef ADAPTCP_ENGINE_COMPACTOR_H_
#define ADAPTCP_ENGINE_COMPACTOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "custom_ops/engine/segment_chain.h"
#include "custom_ops/engine/table_group.h"
#include "custom_ops/io/file_system.h"

namespace adaptcp {

struct CompactOptions {
  TableGroupOptions group;  // and shard
  uint32_t interval = 0;    // of the checkpoint, and so of the base
  // The differential, the increments by falling interval, the base; of this shard.
  std::vector<RestoreFile> newest_first;
  size_t threads = 2;  // that read, and each writes a segment of its own
};

struct CompactResult {
  std::vector<WrittenSegment> segments;  // durable; none when no row is current
  uint64_t rows = 0;
  uint64_t stale_rows = 0;  // copies that a newer segment made obsolete
  uint64_t bytes_read = 0;
};

// Writes the current rows of the chain, each with its values, update rate and class, into segments
// `file_prefix`-base.acp and, of further threads, `file_prefix`-base-p<number>.acp in `directory`.
// A restore of them gives what a restore of the chain does. Memory: the tracker's 16 bytes a row,
// and two blocks a thread. InvalidArgument when rows were stored with fewer bits than they had,
// since a second rounding would change them, or segments do not belong together; DataLoss when a
// file is damaged or not the one meant. After an error the directory holds no new file.
Status Compact(FileSystem* files, const CompactOptions& options, const std::string& directory,
               const std::string& file_prefix, CompactResult* result);

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_COMPACTOR_H_
