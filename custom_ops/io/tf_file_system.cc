// SPDX-License-Identifier: Apache-2.0
// FileSystem over tensorflow::Env, with an fsync that TensorFlow's local files lack.

#include "custom_ops/io/tf_file_system.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/file_system.h"
#include "tensorflow/core/platform/status.h"

namespace adaptcp {
namespace {

StatusCode FromTensorFlow(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kDeadlineExceeded:
      return StatusCode::kUnavailable;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return StatusCode::kFailedPrecondition;
    case absl::StatusCode::kOutOfRange:
      return StatusCode::kDataLoss;
    case absl::StatusCode::kUnknown:
      return StatusCode::kInternal;
    default:
      return static_cast<StatusCode>(code);
  }
}

// "`path`: `action`: what TensorFlow said", or OK.
Status Convert(const tensorflow::Status& status, const std::string& path,
               const std::string& action) {
  if (status.ok()) return Status::OK();
  return Status(FromTensorFlow(status.code()), Concat(path, ": ", action, ": ", status.message()));
}

Status ErrnoStatus(int error, const std::string& path, const std::string& action) {
  return Convert(tensorflow::errors::IOError(path, error), path, action);
}

// Sets `local` and returns true when `path` is a file of this machine.
bool LocalPath(const std::string& path, std::string* local) {
  constexpr std::string_view kFileScheme = "file://";
  if (path.compare(0, kFileScheme.size(), kFileScheme) == 0) {
    // What lies between the scheme and the next slash is a host, which TensorFlow ignores too.
    const size_t root = path.find('/', kFileScheme.size());
    *local = root == std::string::npos ? "" : path.substr(root);
    return true;
  }
  *local = path;
  return path.find("://") == std::string::npos;
}

std::string ParentDirectory(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  Status Open(const std::string& path, int flags) {
    fd_ = open(path.c_str(), flags | O_RDONLY | O_CLOEXEC);
    return fd_ >= 0 ? Status::OK() : ErrnoStatus(errno, path, "cannot open for fsync");
  }

  bool is_open() const { return fd_ >= 0; }

  Status Sync(const std::string& path) const {
    int result;
    do {
      result = fsync(fd_);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? Status::OK() : ErrnoStatus(errno, path, "fsync failed");
  }

 private:
  int fd_ = -1;
};

class TfWritableFile : public WritableFile {
 public:
  TfWritableFile(std::string path, std::unique_ptr<tensorflow::WritableFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  // Opened before anything is written, so that the kernel reports to this descriptor every failed
  // write-back of the file.
  Status OpenForSync() {
    std::string local;
    if (!LocalPath(path_, &local)) return Status::OK();
    ADAPTCP_RETURN_IF_ERROR(descriptor_.Open(local, 0));
    return directory_.Open(ParentDirectory(local), O_DIRECTORY);
  }

  Status Append(const char* data, size_t size) override {
    const Status status = Convert(file_->Append(tensorflow::StringPiece(data, size)), path_,
                                  Concat("cannot append ", size, " bytes at offset ", offset_));
    if (status.ok()) offset_ += size;
    return status;
  }

  Status Sync() override {
    if (!descriptor_.is_open()) return Convert(file_->Sync(), path_, WritingOut());
    ADAPTCP_RETURN_IF_ERROR(Convert(file_->Flush(), path_, WritingOut()));
    ADAPTCP_RETURN_IF_ERROR(descriptor_.Sync(path_));
    if (entry_synced_) return Status::OK();
    ADAPTCP_RETURN_IF_ERROR(directory_.Sync(ParentDirectory(path_)));
    entry_synced_ = true;
    return Status::OK();
  }

  Status Close() override { return Convert(file_->Close(), path_, WritingOut()); }

 private:
  std::string WritingOut() const { return Concat("cannot write out ", offset_, " bytes"); }

  const std::string path_;
  const std::unique_ptr<tensorflow::WritableFile> file_;
  Descriptor descriptor_;  // this and the next: open only for local files
  Descriptor directory_;
  bool entry_synced_ = false;
  uint64_t offset_ = 0;
};

class TfRandomAccessFile : public RandomAccessFile {
 public:
  TfRandomAccessFile(std::string path, std::unique_ptr<tensorflow::RandomAccessFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  Status Read(uint64_t offset, size_t size, char* out) const override {
    tensorflow::StringPiece result;
    const Status status = Convert(file_->Read(offset, size, &result, out), path_,
                                  Concat("cannot read ", size, " bytes at offset ", offset));
    ADAPTCP_RETURN_IF_ERROR(status);
    if (result.size() != size) {
      return DataLoss(path_, ": offset ", offset, ": expected ", size, " bytes, found ",
                      result.size());
    }
    // Some file systems answer from memory of their own.
    if (result.data() != out) std::memmove(out, result.data(), size);
    return Status::OK();
  }

 private:
  const std::string path_;
  const std::unique_ptr<tensorflow::RandomAccessFile> file_;
};

}  // namespace

Status TfFileSystem::NewWritableFile(const std::string& path, std::unique_ptr<WritableFile>* file) {
  std::unique_ptr<tensorflow::WritableFile> opened;
  ADAPTCP_RETURN_IF_ERROR(
      Convert(env_->NewWritableFile(path, &opened), path, "cannot create the file"));
  auto writable = std::make_unique<TfWritableFile>(path, std::move(opened));
  ADAPTCP_RETURN_IF_ERROR(writable->OpenForSync());
  *file = std::move(writable);
  return Status::OK();
}

Status TfFileSystem::NewRandomAccessFile(const std::string& path,
                                         std::unique_ptr<RandomAccessFile>* file) {
  std::unique_ptr<tensorflow::RandomAccessFile> opened;
  ADAPTCP_RETURN_IF_ERROR(
      Convert(env_->NewRandomAccessFile(path, &opened), path, "cannot open the file"));
  *file = std::make_unique<TfRandomAccessFile>(path, std::move(opened));
  return Status::OK();
}

Status TfFileSystem::GetFileSize(const std::string& path, uint64_t* size) {
  tensorflow::uint64 bytes = 0;
  ADAPTCP_RETURN_IF_ERROR(
      Convert(env_->GetFileSize(path, &bytes), path, "cannot find the size of the file"));
  *size = bytes;
  return Status::OK();
}

Status TfFileSystem::DeleteFile(const std::string& path) {
  return Convert(env_->DeleteFile(path), path, "cannot delete the file");
}

Status TfFileSystem::RenameFile(const std::string& source, const std::string& target) {
  ADAPTCP_RETURN_IF_ERROR(
      Convert(env_->RenameFile(source, target), source, Concat("cannot rename to ", target)));
  std::string local;
  if (!LocalPath(target, &local)) return Status::OK();
  const std::string parent = ParentDirectory(local);
  Descriptor directory;
  ADAPTCP_RETURN_IF_ERROR(directory.Open(parent, O_DIRECTORY));
  return directory.Sync(parent);
}

}  // namespace adaptcp
