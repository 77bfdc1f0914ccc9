// SPDX-License-Identifier: Apache-2.0
// The files the engine sees. tf_file_system.h implements them over tensorflow::Env,
// custom_ops/testing in memory with faults.

#ifndef ADAPTCP_IO_FILE_SYSTEM_H_
#define ADAPTCP_IO_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "custom_ops/base/status.h"

namespace adaptcp {

// Not thread-safe. Destroying an unclosed file abandons what was not yet written.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status Append(const char* data, size_t size) = 0;
  // Makes everything appended so far survive a power loss, where the store can promise it.
  virtual Status Sync() = 0;
  virtual Status Close() = 0;
};

// Safe for concurrent reads.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;
  // Fills all of `size` bytes or fails: DataLoss when the file ends before that.
  virtual Status Read(uint64_t offset, size_t size, char* out) const = 0;
};

// Safe for concurrent use. Every message names the path.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Status NewWritableFile(const std::string& path, std::unique_ptr<WritableFile>* file) = 0;
  // NotFound when `path` does not exist.
  virtual Status NewRandomAccessFile(const std::string& path,
                                     std::unique_ptr<RandomAccessFile>* file) = 0;
  virtual Status GetFileSize(const std::string& path, uint64_t* size) = 0;
  virtual Status DeleteFile(const std::string& path) = 0;
  // Replaces `target` if it exists; durably, where the store can promise it.
  virtual Status RenameFile(const std::string& source, const std::string& target) = 0;
};

}  // namespace adaptcp

#endif  // ADAPTCP_IO_FILE_SYSTEM_H_
