// SPDX-License-Identifier: Apache-2.0
// Files in memory that fail, fill up, lose power and rot when a test says so.

#ifndef ADAPTCP_TESTING_MEMORY_FILE_SYSTEM_H_
#define ADAPTCP_TESTING_MEMORY_FILE_SYSTEM_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/base/status.h"
#include "custom_ops/io/file_system.h"

namespace adaptcp {

// Safe for concurrent use. Must outlive the files it opens.
class MemoryFileSystem : public FileSystem {
 public:
  enum Operation { kOpen, kAppend, kSync, kClose, kRead, kDelete, kSize, kRename };

  Status NewWritableFile(const std::string& path, std::unique_ptr<WritableFile>* file) override;
  Status NewRandomAccessFile(const std::string& path,
                             std::unique_ptr<RandomAccessFile>* file) override;
  Status GetFileSize(const std::string& path, uint64_t* size) override;
  Status DeleteFile(const std::string& path) override;
  Status RenameFile(const std::string& source, const std::string& target) override;

  // Faults.

  // Lets `nth` - 1 more of these operations succeed and the next fail with `status`. An append that
  // fails so leaves half of its bytes behind. kOpen counts files opened to write and to read.
  void FailNth(Operation operation, int nth, const Status& status);
  // The same for every operation of that kind from the `nth` on.
  void FailFromNth(Operation operation, int nth, const Status& status);
  // Takes FailNth and FailFromNth back.
  void ClearFaults();
  // From now on an append that would take all files together above `bytes` writes what fits and
  // fails with ResourceExhausted.
  void SetCapacity(uint64_t bytes);
  // Makes each operation of that kind take at least so long.
  void SetDelay(Operation operation, std::chrono::microseconds delay);
  // Power loss: files never synced vanish, others shrink to what was last synced, and files open
  // now no longer reach what is left.
  void DropUnsynced();

  // Damage. `path` must exist and have the bytes.

  // Flips every bit of `size` bytes.
  void Corrupt(const std::string& path, uint64_t offset, uint64_t size);
  void Truncate(const std::string& path, uint64_t size);

  // Contents, whether synced or not.

  void SetContents(const std::string& path, std::string bytes);
  // Empty when there is no such file.
  std::string Contents(const std::string& path);
  bool Exists(const std::string& path);
  std::vector<std::string> Paths();
  int OperationCount(Operation operation);

 private:
  friend class MemoryWritableFile;
  friend class MemoryRandomAccessFile;

  static constexpr int kNumOperations = kRename + 1;

  struct File {
    std::string bytes;
    uint64_t synced_bytes = 0;
    bool entry_synced = false;
  };
  struct Fault {
    int successes_left = std::numeric_limits<int>::max();
    bool repeats = false;
    Status status;
  };

  // Counts the operation, and fails it if that is its turn.
  Status Enter(Operation operation, const std::string& path) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Wait(Operation operation) TF_LOCKS_EXCLUDED(mu_);
  Status AppendTo(File* file, const std::string& path, const char* data, size_t size);
  Status SyncFile(File* file, const std::string& path);
  Status CloseFile(const std::string& path);
  Status ReadFrom(const File& file, const std::string& path, uint64_t offset, size_t size,
                  char* out);
  uint64_t TotalBytes() const TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  // The files themselves are guarded by mu_ as well; open ones are shared with their handles.
  std::map<std::string, std::shared_ptr<File>> files_ TF_GUARDED_BY(mu_);
  std::array<Fault, kNumOperations> faults_ TF_GUARDED_BY(mu_);
  std::array<int, kNumOperations> counts_ TF_GUARDED_BY(mu_) = {};
  std::array<std::chrono::microseconds, kNumOperations> delays_ TF_GUARDED_BY(mu_) = {};
  uint64_t capacity_ TF_GUARDED_BY(mu_) = std::numeric_limits<uint64_t>::max();
};

}  // namespace adaptcp

#endif  // ADAPTCP_TESTING_MEMORY_FILE_SYSTEM_H_
