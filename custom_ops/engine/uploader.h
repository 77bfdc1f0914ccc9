// SPDX-License-Identifier: Apache-2.0
// Copies finished files from the SSD buffer to remote storage, several at once, in spite of
// failures.

#ifndef ADAPTCP_ENGINE_UPLOADER_H_
#define ADAPTCP_ENGINE_UPLOADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "custom_ops/base/status.h"
#include "custom_ops/io/file_system.h"

namespace adaptcp {

struct UploadFile {
  std::string source;
  std::string target;
  uint64_t bytes = 0;  // that the source must have
};

struct UploadOptions {
  size_t threads = 4;
  // Whether the store shows a file only when all of it is there. Elsewhere a file is written under
  // another name (`target`.tmp-<8 hex digits>) and renamed.
  bool atomic_writes = false;
  // Whether an earlier upload may have got somewhere: targets of the right size are left alone.
  bool resume = false;
  // Of each file; between them waits that double, of random length.
  size_t attempts = 6;
  double first_wait_secs = 0.1;
  double longest_wait_secs = 5.0;
};

// Counts up to a failure too.
struct UploadResult {
  uint64_t files = 0;    // uploaded now, or found there
  uint64_t bytes = 0;    // uploaded now
  uint64_t retries = 0;  // attempts after the first
};

// Returns when every target is durable. After an error some targets may be there, whole; no file
// under another name is left behind as far as the store allows to delete it. The statuses are those
// of the file system; a source that is missing or has another size is DataLoss naming it. Tries
// again after every failure that may pass: not after InvalidArgument, NotFound, FailedPrecondition,
// Unimplemented and DataLoss.
Status Upload(FileSystem* file_system, const std::vector<UploadFile>& files,
              const UploadOptions& options, UploadResult* result);

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_UPLOADER_H_
