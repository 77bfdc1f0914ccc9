// SPDX-License-Identifier: Apache-2.0
// Loads a chain of segments into the tables of a group's shards and rebuilds their trackers.

#ifndef ADAPTCP_ENGINE_RESTORER_H_
#define ADAPTCP_ENGINE_RESTORER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "custom_ops/engine/segment_chain.h"
#include "custom_ops/engine/table_group.h"
#include "custom_ops/io/file_system.h"

namespace adaptcp {

// For each row of a key block the shard that it belongs to now. Called on several threads.
using PartitionFunction = std::function<Status(const RowBlock& block, std::vector<int32_t>* shard)>;

struct RestoreOptions {
  uint32_t interval = 0;  // of the checkpoint
  // Of all shards: the differentials, the increments by falling interval, the bases.
  std::vector<RestoreFile> newest_first;
  uint32_t saved_shards = 1;  // how many there were
  // Threads that each read a block; so many of them at a time register its keys and insert its
  // rows.
  size_t read_threads = 32;
  size_t threads = 2;
  bool slots = true;            // false: the first table, the parameter, only
  PartitionFunction partition;  // needed if there is more than one shard now
};

struct RestoreResult {
  uint64_t rows = 0;
  uint64_t stale_rows = 0;  // copies that a newer segment made obsolete
  uint64_t bytes_read = 0;
  std::vector<std::string> tables_without_rows;  // attached tables that got none
};

// `shards` are those of one group, in order, however many there were at the time of the save; their
// tables must be empty and nobody may use them meanwhile. Reads every key record, newest segments
// first, and the values of those blocks only that hold a row that is still current; memory is one
// block a reading thread, and no more than 8 MiB for each. InvalidArgument when the segments are of
// another group or of tables with other dtypes or dims, or the partition function names a shard
// that there is not; DataLoss when a file is damaged or not the one meant. Tables and trackers are
// then in an undefined state and must be restored again.
Status Restore(const std::vector<TableGroup*>& shards, FileSystem* file_system,
               const RestoreOptions& options, RestoreResult* result);

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_RESTORER_H_
