// SPDX-License-Identifier: Apache-2.0
// Files through tensorflow::Env: local paths and every scheme TensorFlow or its plugins know.

#ifndef ADAPTCP_IO_TF_FILE_SYSTEM_H_
#define ADAPTCP_IO_TF_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "custom_ops/base/status.h"
#include "custom_ops/io/file_system.h"
#include "tensorflow/core/platform/env.h"

namespace adaptcp {

// On local paths Sync reaches the disk, of the file and of its entry in the directory;
// TensorFlow's own Sync stops at the operating system. Elsewhere Sync promises what the store does.
// Statuses: ResourceExhausted for a full disk or quota, NotFound for a missing file or directory,
// DataLoss for a file that ends too early, otherwise TensorFlow's code or the nearest to it.
class TfFileSystem : public FileSystem {
 public:
  // `env` must outlive this and the files it opens.
  explicit TfFileSystem(tensorflow::Env* env = tensorflow::Env::Default()) : env_(env) {}

  Status NewWritableFile(const std::string& path, std::unique_ptr<WritableFile>* file) override;
  Status NewRandomAccessFile(const std::string& path,
                             std::unique_ptr<RandomAccessFile>* file) override;
  Status GetFileSize(const std::string& path, uint64_t* size) override;
  Status DeleteFile(const std::string& path) override;
  Status RenameFile(const std::string& source, const std::string& target) override;

 private:
  tensorflow::Env* const env_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_IO_TF_FILE_SYSTEM_H_
