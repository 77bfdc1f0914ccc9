// SPDX-License-Identifier: Apache-2.0
// One file's way to remote storage: look, copy, rename, and again after a failure.

#include "custom_ops/engine/uploader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>

#include "custom_ops/engine/parallel_for.h"

namespace adaptcp {
namespace {

constexpr size_t kCopyBytes = size_t{1} << 20;

bool MayPass(const Status& failure) {
  switch (failure.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnimplemented:
    case StatusCode::kDataLoss:
      return false;
    default:
      return true;
  }
}

std::mt19937_64* Random() {
  static thread_local std::mt19937_64 random(std::random_device{}());
  return &random;
}

std::string TemporaryName(const std::string& target) {
  char digits[9];
  std::snprintf(digits, sizeof(digits), "%08x", static_cast<uint32_t>((*Random())()));
  return Concat(target, ".tmp-", digits);
}

class Uploader {
 public:
  Uploader(FileSystem* file_system, const UploadOptions& options)
      : file_system_(file_system), options_(options) {}

  Status Upload(const UploadFile& file) {
    Status failure;
    for (size_t attempt = 0; attempt < options_.attempts; ++attempt) {
      if (attempt > 0) {
        ++retries_;
        Wait(attempt);
      }
      bool there = false;
      failure = options_.resume || attempt > 0 ? IsThere(file, &there) : Status::OK();
      if (failure.ok() && !there) failure = Copy(file);
      if (failure.ok()) {
        ++files_;
        if (!there) bytes_ += file.bytes;
        return failure;
      }
      if (!MayPass(failure)) return failure;
    }
    return Status(failure.code(), Concat(failure.message(), " (", options_.attempts, " attempts)"));
  }

  UploadResult result() const { return {files_, bytes_, retries_}; }

 private:
  // Between half of the time and all of it, so that clients that failed together come back apart.
  void Wait(size_t attempt) const {
    const double longest = std::min(options_.longest_wait_secs,
                                    options_.first_wait_secs * std::exp2(double(attempt - 1)));
    const double secs = std::uniform_real_distribution<double>(longest / 2, longest)(*Random());
    std::this_thread::sleep_for(std::chrono::duration<double>(secs));
  }

  // The answer to an earlier attempt may have been lost, not the bytes.
  Status IsThere(const UploadFile& file, bool* there) const {
    uint64_t bytes;
    const Status status = file_system_->GetFileSize(file.target, &bytes);
    if (status.code() == StatusCode::kNotFound) return Status::OK();
    *there = status.ok() && bytes == file.bytes;
    return status;
  }

  Status Copy(const UploadFile& file) {
    std::unique_ptr<RandomAccessFile> source;
    ADAPTCP_RETURN_IF_ERROR(OpenSource(file, &source));
    if (options_.atomic_writes) return CopyTo(file.target, file, *source);
    const std::string temporary = TemporaryName(file.target);
    Status status = CopyTo(temporary, file, *source);
    if (status.ok()) status = file_system_->RenameFile(temporary, file.target);
    // The failure to write is what the caller must hear of, not one to delete.
    if (!status.ok()) (void)file_system_->DeleteFile(temporary).ok();
    return status;
  }

  Status OpenSource(const UploadFile& file, std::unique_ptr<RandomAccessFile>* source) const {
    uint64_t bytes = 0;
    Status status = file_system_->GetFileSize(file.source, &bytes);
    if (status.ok()) status = file_system_->NewRandomAccessFile(file.source, source);
    if (!status.ok()) return DataLoss("cannot read the file to upload: ", status.message());
    if (bytes == file.bytes) return Status::OK();
    return DataLoss(file.source, ": expected a file of ", file.bytes, " bytes to upload, found ",
                    bytes);
  }

  Status CopyTo(const std::string& target, const UploadFile& file, const RandomAccessFile& source) {
    std::unique_ptr<WritableFile> writable;
    ADAPTCP_RETURN_IF_ERROR(file_system_->NewWritableFile(target, &writable));
    std::vector<char> buffer(std::min<uint64_t>(kCopyBytes, file.bytes));
    for (uint64_t offset = 0; offset < file.bytes; offset += buffer.size()) {
      const size_t n = std::min<uint64_t>(buffer.size(), file.bytes - offset);
      const Status read = source.Read(offset, n, buffer.data());
      if (!read.ok()) return DataLoss("cannot read the file to upload: ", read.message());
      ADAPTCP_RETURN_IF_ERROR(writable->Append(buffer.data(), n));
    }
    ADAPTCP_RETURN_IF_ERROR(writable->Sync());
    return writable->Close();
  }

  FileSystem* const file_system_;
  const UploadOptions& options_;
  std::atomic<uint64_t> files_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> retries_{0};
};

}  // namespace

Status Upload(FileSystem* file_system, const std::vector<UploadFile>& files,
              const UploadOptions& options, UploadResult* result) {
  Uploader uploader(file_system, options);
  const Status status = ParallelFor(files.size(), options.threads,
                                    [&](size_t i) { return uploader.Upload(files[i]); });
  *result = uploader.result();
  return status;
}

}  // namespace adaptcp
