// SPDX-License-Identifier: Apache-2.0
// A TensorFlow file system over local files that is as slow and unreliable as a remote store:
// slow:///folder/file is /folder/file. As in an object store a file appears, whole, when it is
// closed.

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "custom_ops/testing/slow_store/traffic.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/file_system.h"

namespace adaptcp {
namespace {

using tensorflow::Env;
using tensorflow::Status;
using tensorflow::StringPiece;
using tensorflow::TransactionToken;

constexpr char kScheme[] = "slow://";
// Written so far, and not there yet for anybody else.
constexpr char kUnfinished[] = ".unfinished-";

Traffic* SharedTraffic() {
  static Traffic* const traffic = new Traffic;
  return traffic;
}

std::string LocalName(const std::string& name) {
  return name.compare(0, sizeof(kScheme) - 1, kScheme) == 0 ? name.substr(sizeof(kScheme) - 1)
                                                            : name;
}

bool IsUnfinished(const std::string& name) { return name.find(kUnfinished) != std::string::npos; }

// The latency of a request, and its failure.
Status Request(const std::string& what, const std::string& name) {
  if (SharedTraffic()->Request()) return Status();
  return tensorflow::errors::Unavailable("injected failure: ", what, " of ", name);
}

class SlowWritableFile : public tensorflow::WritableFile {
 public:
  SlowWritableFile(std::string name, std::string unfinished,
                   std::unique_ptr<tensorflow::WritableFile> file)
      : name_(std::move(name)), unfinished_(std::move(unfinished)), file_(std::move(file)) {}
  ~SlowWritableFile() override { Abandon(); }

  Status Append(StringPiece data) override {
    SharedTraffic()->Transfer(data.size(), /*write=*/true, &free_);
    return file_->Append(data);
  }
  Status Flush() override { return Status(); }
  Status Sync() override { return Status(); }
  Status Tell(tensorflow::int64* position) override { return file_->Tell(position); }
  Status Name(StringPiece* result) const override {
    *result = name_;
    return Status();
  }

  Status Close() override {
    if (file_ == nullptr) return Status();
    Status status = Request("write", name_);
    if (status.ok()) status = file_->Close();
    if (!status.ok()) {
      Abandon();
      return status;
    }
    file_.reset();
    return Env::Default()->RenameFile(unfinished_, LocalName(name_));
  }

 private:
  // A file whose end was never written never appears.
  void Abandon() {
    if (file_ == nullptr) return;
    file_.reset();
    // What went wrong before is what the caller must hear of.
    (void)Env::Default()->DeleteFile(unfinished_).ok();
  }

  const std::string name_;
  const std::string unfinished_;
  std::unique_ptr<tensorflow::WritableFile> file_;  // null once closed
  Clock::time_point free_;
};

class SlowRandomAccessFile : public tensorflow::RandomAccessFile {
 public:
  SlowRandomAccessFile(std::string name, std::unique_ptr<tensorflow::RandomAccessFile> file)
      : name_(std::move(name)), file_(std::move(file)) {}

  Status Name(StringPiece* result) const override {
    *result = name_;
    return Status();
  }
  Status Read(tensorflow::uint64 offset, size_t n, StringPiece* result,
              char* scratch) const override {
    TF_RETURN_IF_ERROR(Request("read", name_));
    const Status status = file_->Read(offset, n, result, scratch);
    Clock::time_point free;  // each read is a stream of its own
    SharedTraffic()->Transfer(result->size(), /*write=*/false, &free);
    return status;
  }

 private:
  const std::string name_;
  const std::unique_ptr<tensorflow::RandomAccessFile> file_;
};

class SlowFileSystem : public tensorflow::FileSystem {
 public:
  Status NewRandomAccessFile(const std::string& name, TransactionToken*,
                             std::unique_ptr<tensorflow::RandomAccessFile>* result) override {
    TF_RETURN_IF_ERROR(Request("open", name));
    std::unique_ptr<tensorflow::RandomAccessFile> file;
    TF_RETURN_IF_ERROR(Env::Default()->NewRandomAccessFile(LocalName(name), &file));
    *result = std::make_unique<SlowRandomAccessFile>(name, std::move(file));
    return Status();
  }

  Status NewWritableFile(const std::string& name, TransactionToken*,
                         std::unique_ptr<tensorflow::WritableFile>* result) override {
    static std::atomic<uint64_t> number{0};
    TF_RETURN_IF_ERROR(Request("open", name));
    const std::string unfinished = LocalName(name) + kUnfinished + std::to_string(number++);
    std::unique_ptr<tensorflow::WritableFile> file;
    TF_RETURN_IF_ERROR(Env::Default()->NewWritableFile(unfinished, &file));
    *result = std::make_unique<SlowWritableFile>(name, unfinished, std::move(file));
    return Status();
  }

  Status NewAppendableFile(const std::string& name, TransactionToken*,
                           std::unique_ptr<tensorflow::WritableFile>*) override {
    return tensorflow::errors::Unimplemented(name, ": an object cannot be appended to");
  }
  Status NewReadOnlyMemoryRegionFromFile(
      const std::string& name, TransactionToken*,
      std::unique_ptr<tensorflow::ReadOnlyMemoryRegion>*) override {
    return tensorflow::errors::Unimplemented(name, ": an object cannot be mapped");
  }

  Status FileExists(const std::string& name, TransactionToken*) override {
    TF_RETURN_IF_ERROR(Request("stat", name));
    return Env::Default()->FileExists(LocalName(name));
  }

  Status GetChildren(const std::string& name, TransactionToken*,
                     std::vector<std::string>* result) override {
    TF_RETURN_IF_ERROR(Request("list", name));
    TF_RETURN_IF_ERROR(Env::Default()->GetChildren(LocalName(name), result));
    result->erase(std::remove_if(result->begin(), result->end(), IsUnfinished), result->end());
    return Status();
  }

  Status GetMatchingPaths(const std::string& pattern, TransactionToken*,
                          std::vector<std::string>* results) override {
    TF_RETURN_IF_ERROR(Request("list", pattern));
    TF_RETURN_IF_ERROR(Env::Default()->GetMatchingPaths(LocalName(pattern), results));
    results->erase(std::remove_if(results->begin(), results->end(), IsUnfinished), results->end());
    for (std::string& path : *results) path = kScheme + path;
    return Status();
  }

  Status DeleteFile(const std::string& name, TransactionToken*) override {
    TF_RETURN_IF_ERROR(Request("delete", name));
    return Env::Default()->DeleteFile(LocalName(name));
  }

  Status CreateDir(const std::string& name, TransactionToken*) override {
    TF_RETURN_IF_ERROR(Request("create", name));
    return Env::Default()->CreateDir(LocalName(name));
  }

  Status DeleteDir(const std::string& name, TransactionToken*) override {
    TF_RETURN_IF_ERROR(Request("delete", name));
    return Env::Default()->DeleteDir(LocalName(name));
  }

  Status GetFileSize(const std::string& name, TransactionToken*,
                     tensorflow::uint64* size) override {
    TF_RETURN_IF_ERROR(Request("stat", name));
    return Env::Default()->GetFileSize(LocalName(name), size);
  }

  Status RenameFile(const std::string& from, const std::string& to, TransactionToken*) override {
    TF_RETURN_IF_ERROR(Request("rename", from));
    return Env::Default()->RenameFile(LocalName(from), LocalName(to));
  }

  Status Stat(const std::string& name, TransactionToken*,
              tensorflow::FileStatistics* stat) override {
    TF_RETURN_IF_ERROR(Request("stat", name));
    return Env::Default()->Stat(LocalName(name), stat);
  }
};

REGISTER_FILE_SYSTEM("slow", SlowFileSystem);

}  // namespace
}  // namespace adaptcp

// For Python, through ctypes.
extern "C" {

void adaptcp_slow_store_configure(double stream_bytes_per_sec, double total_bytes_per_sec,
                                  double latency_secs, double failure_rate, uint64_t seed) {
  adaptcp::SharedTraffic()->Configure(
      {stream_bytes_per_sec, total_bytes_per_sec, latency_secs, failure_rate, seed});
}

void adaptcp_slow_store_counters(uint64_t* counters) {
  const adaptcp::TrafficCounters found = adaptcp::SharedTraffic()->counters();
  counters[0] = found.requests;
  counters[1] = found.failures;
  counters[2] = found.bytes_written;
  counters[3] = found.bytes_read;
}

}  // extern "C"
