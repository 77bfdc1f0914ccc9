// SPDX-License-Identifier: Apache-2.0
// Loads a chain of segments into the tables of one group and rebuilds its tracker.

#ifndef ADAPTCP_ENGINE_RESTORER_H_
#define ADAPTCP_ENGINE_RESTORER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "custom_ops/engine/table_group.h"
#include "custom_ops/io/file_system.h"

namespace adaptcp {

struct RestoreFile {
  std::string path;
  SegmentKind kind = SegmentKind::kBase;
  uint32_t interval = 0;
  // What the manifest says of the file; another file in its place is refused.
  uint64_t bytes = 0;
  uint32_t footer_crc = 0;
};

struct RestoreOptions {
  uint32_t interval = 0;  // of the checkpoint
  std::vector<RestoreFile> newest_first;
  size_t threads = 2;
};

struct RestoreResult {
  uint64_t rows = 0;
  uint64_t stale_rows = 0;  // copies that a newer segment made obsolete
  uint64_t bytes_read = 0;
  std::vector<std::string> tables_without_rows;  // attached tables that no segment mentions
};

// The group's tables must be empty and nobody may use them meanwhile. Reads every key record,
// newest segment first, then the values of those blocks only that hold a row that is still current;
// memory is a bit per row plus one block a thread. InvalidArgument when the segments are of another
// group or of tables with other dtypes or dims, DataLoss when a file is damaged or not the one
// meant; tables and tracker are then in an undefined state and must be restored again.
Status Restore(TableGroup* group, FileSystem* file_system, const RestoreOptions& options,
               RestoreResult* result);

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_RESTORER_H_
