// SPDX-License-Identifier: Apache-2.0
// The in-memory file system for tests.

#include "custom_ops/testing/memory_file_system.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace adaptcp {

class MemoryWritableFile : public WritableFile {
 public:
  MemoryWritableFile(MemoryFileSystem* owner, std::string path,
                     std::shared_ptr<MemoryFileSystem::File> file)
      : owner_(owner), path_(std::move(path)), file_(std::move(file)) {}

  Status Append(const char* data, size_t size) override {
    return owner_->AppendTo(file_.get(), path_, data, size);
  }
  Status Sync() override { return owner_->SyncFile(file_.get(), path_); }
  Status Close() override { return owner_->CloseFile(path_); }

 private:
  MemoryFileSystem* const owner_;
  const std::string path_;
  const std::shared_ptr<MemoryFileSystem::File> file_;
};

class MemoryRandomAccessFile : public RandomAccessFile {
 public:
  MemoryRandomAccessFile(MemoryFileSystem* owner, std::string path,
                         std::shared_ptr<MemoryFileSystem::File> file)
      : owner_(owner), path_(std::move(path)), file_(std::move(file)) {}

  Status Read(uint64_t offset, size_t size, char* out) const override {
    return owner_->ReadFrom(*file_, path_, offset, size, out);
  }

 private:
  MemoryFileSystem* const owner_;
  const std::string path_;
  const std::shared_ptr<MemoryFileSystem::File> file_;
};

Status MemoryFileSystem::NewWritableFile(const std::string& path,
                                         std::unique_ptr<WritableFile>* file) {
  Wait(kOpen);
  MutexLock lock(&mu_);
  ADAPTCP_RETURN_IF_ERROR(Enter(kOpen, path));
  auto created = std::make_shared<File>();
  files_[path] = created;
  *file = std::make_unique<MemoryWritableFile>(this, path, std::move(created));
  return Status::OK();
}

Status MemoryFileSystem::NewRandomAccessFile(const std::string& path,
                                             std::unique_ptr<RandomAccessFile>* file) {
  Wait(kOpen);
  MutexLock lock(&mu_);
  ADAPTCP_RETURN_IF_ERROR(Enter(kOpen, path));
  const auto found = files_.find(path);
  if (found == files_.end()) return NotFound(path, ": no such file");
  *file = std::make_unique<MemoryRandomAccessFile>(this, path, found->second);
  return Status::OK();
}

Status MemoryFileSystem::GetFileSize(const std::string& path, uint64_t* size) {
  MutexLock lock(&mu_);
  ADAPTCP_RETURN_IF_ERROR(Enter(kSize, path));
  const auto found = files_.find(path);
  if (found == files_.end()) return NotFound(path, ": no such file");
  *size = found->second->bytes.size();
  return Status::OK();
}

Status MemoryFileSystem::DeleteFile(const std::string& path) {
  Wait(kDelete);
  MutexLock lock(&mu_);
  ADAPTCP_RETURN_IF_ERROR(Enter(kDelete, path));
  if (files_.erase(path) == 0) return NotFound(path, ": no such file");
  return Status::OK();
}

Status MemoryFileSystem::RenameFile(const std::string& source, const std::string& target) {
  MutexLock lock(&mu_);
  ADAPTCP_RETURN_IF_ERROR(Enter(kRename, source));
  const auto found = files_.find(source);
  if (found == files_.end()) return NotFound(source, ": no such file");
  files_[target] = found->second;
  files_.erase(found);
  return Status::OK();
}

void MemoryFileSystem::FailNth(Operation operation, int nth, const Status& status) {
  MutexLock lock(&mu_);
  faults_[operation] = Fault{nth - 1, false, status};
}

void MemoryFileSystem::FailFromNth(Operation operation, int nth, const Status& status) {
  MutexLock lock(&mu_);
  faults_[operation] = Fault{nth - 1, true, status};
}

void MemoryFileSystem::ClearFaults() {
  MutexLock lock(&mu_);
  faults_.fill(Fault());
}

void MemoryFileSystem::SetCapacity(uint64_t bytes) {
  MutexLock lock(&mu_);
  capacity_ = bytes;
}

void MemoryFileSystem::SetDelay(Operation operation, std::chrono::microseconds delay) {
  MutexLock lock(&mu_);
  delays_[operation] = delay;
}

void MemoryFileSystem::DropUnsynced() {
  MutexLock lock(&mu_);
  std::map<std::string, std::shared_ptr<File>> left;
  for (const auto& [path, file] : files_) {
    if (!file->entry_synced) continue;
    auto copy = std::make_shared<File>(*file);
    copy->bytes.resize(copy->synced_bytes);
    left[path] = std::move(copy);
  }
  files_ = std::move(left);
}

void MemoryFileSystem::Corrupt(const std::string& path, uint64_t offset, uint64_t size) {
  MutexLock lock(&mu_);
  std::string& bytes = files_.at(path)->bytes;
  for (uint64_t i = offset; i < offset + size; ++i) bytes.at(i) = static_cast<char>(~bytes[i]);
}

void MemoryFileSystem::Truncate(const std::string& path, uint64_t size) {
  MutexLock lock(&mu_);
  File& file = *files_.at(path);
  file.bytes.resize(std::min<uint64_t>(size, file.bytes.size()));
  file.synced_bytes = std::min<uint64_t>(file.synced_bytes, file.bytes.size());
}

void MemoryFileSystem::SetContents(const std::string& path, std::string bytes) {
  MutexLock lock(&mu_);
  const uint64_t size = bytes.size();
  files_[path] = std::make_shared<File>(File{std::move(bytes), size, true});
}

std::string MemoryFileSystem::Contents(const std::string& path) {
  MutexLock lock(&mu_);
  const auto found = files_.find(path);
  return found == files_.end() ? "" : found->second->bytes;
}

bool MemoryFileSystem::Exists(const std::string& path) {
  MutexLock lock(&mu_);
  return files_.count(path) > 0;
}

std::vector<std::string> MemoryFileSystem::Paths() {
  MutexLock lock(&mu_);
  std::vector<std::string> paths;
  for (const auto& entry : files_) paths.push_back(entry.first);
  return paths;
}

int MemoryFileSystem::OperationCount(Operation operation) {
  MutexLock lock(&mu_);
  return counts_[operation];
}

Status MemoryFileSystem::Enter(Operation operation, const std::string& path) {
  ++counts_[operation];
  Fault& fault = faults_[operation];
  if (fault.status.ok() || fault.successes_left-- > 0) return Status::OK();
  const Status failure(fault.status.code(), Concat(path, ": ", fault.status.message()));
  if (fault.repeats) {
    fault.successes_left = 0;
  } else {
    fault = Fault();
  }
  return failure;
}

void MemoryFileSystem::Wait(Operation operation) {
  std::chrono::microseconds delay;
  {
    MutexLock lock(&mu_);
    delay = delays_[operation];
  }
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
}

Status MemoryFileSystem::AppendTo(File* file, const std::string& path, const char* data,
                                  size_t size) {
  Wait(kAppend);
  MutexLock lock(&mu_);
  const Status failure = Enter(kAppend, path);
  if (!failure.ok()) {
    file->bytes.append(data, size / 2);
    return failure;
  }
  const uint64_t total = TotalBytes();
  const uint64_t room = capacity_ > total ? capacity_ - total : 0;
  file->bytes.append(data, std::min<uint64_t>(size, room));
  if (size <= room) return Status::OK();
  return Status(StatusCode::kResourceExhausted,
                Concat(path, ": no space left: expected room for ", size, " bytes, found ", room));
}

Status MemoryFileSystem::SyncFile(File* file, const std::string& path) {
  Wait(kSync);
  MutexLock lock(&mu_);
  ADAPTCP_RETURN_IF_ERROR(Enter(kSync, path));
  file->synced_bytes = file->bytes.size();
  file->entry_synced = true;
  return Status::OK();
}

Status MemoryFileSystem::CloseFile(const std::string& path) {
  Wait(kClose);
  MutexLock lock(&mu_);
  return Enter(kClose, path);
}

Status MemoryFileSystem::ReadFrom(const File& file, const std::string& path, uint64_t offset,
                                  size_t size, char* out) {
  Wait(kRead);
  MutexLock lock(&mu_);
  ADAPTCP_RETURN_IF_ERROR(Enter(kRead, path));
  const uint64_t available = file.bytes.size() - std::min<uint64_t>(offset, file.bytes.size());
  if (size > available) {
    return DataLoss(path, ": offset ", offset, ": expected ", size, " bytes, found ", available);
  }
  if (size > 0) std::memcpy(out, file.bytes.data() + offset, size);
  return Status::OK();
}

uint64_t MemoryFileSystem::TotalBytes() const {
  uint64_t total = 0;
  for (const auto& entry : files_) total += entry.second->bytes.size();
  return total;
}

}  // namespace adaptcp
