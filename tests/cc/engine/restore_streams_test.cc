// SPDX-License-Identifier: Apache-2.0
// How many blocks a restore reads and inserts at once, and that the slowest stream changes nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "custom_ops/base/mutex.h"
#include "tests/cc/engine/test_group.h"
#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

// Counts calls that are under way at once.
class Gauge {
 public:
  // From call number `first` on they wait until so many are under way; once that was so, none does.
  void AwaitTogether(size_t first, size_t together) {
    MutexLock lock(&mu_);
    first_ = first;
    together_ = together;
  }

  void Enter() {
    MutexLock lock(&mu_);
    ++calls_;
    most_ = std::max(most_, ++under_way_);
    if (calls_ < first_) return;
    while (most_ < together_) changed_.Wait(&mu_);
    changed_.SignalAll();
  }
  void Leave() {
    MutexLock lock(&mu_);
    --under_way_;
  }

  size_t most() {
    MutexLock lock(&mu_);
    return most_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  size_t calls_ TF_GUARDED_BY(mu_) = 0;
  size_t under_way_ TF_GUARDED_BY(mu_) = 0;
  size_t most_ TF_GUARDED_BY(mu_) = 0;
  size_t first_ TF_GUARDED_BY(mu_) = 0;
  size_t together_ TF_GUARDED_BY(mu_) = 0;
};

class GaugedFile : public RandomAccessFile {
 public:
  GaugedFile(Gauge* gauge, std::chrono::milliseconds delay, std::unique_ptr<RandomAccessFile> file)
      : gauge_(gauge), delay_(delay), file_(std::move(file)) {}
  Status Read(uint64_t offset, size_t size, char* out) const override {
    gauge_->Enter();
    std::this_thread::sleep_for(delay_);
    const Status status = file_->Read(offset, size, out);
    gauge_->Leave();
    return status;
  }

 private:
  Gauge* const gauge_;
  const std::chrono::milliseconds delay_;
  const std::unique_ptr<RandomAccessFile> file_;
};

// Files whose reads are counted; those of one path may be slow.
class GaugedFileSystem : public MemoryFileSystem {
 public:
  Status NewRandomAccessFile(const std::string& path,
                             std::unique_ptr<RandomAccessFile>* file) override {
    std::unique_ptr<RandomAccessFile> opened;
    ADAPTCP_RETURN_IF_ERROR(MemoryFileSystem::NewRandomAccessFile(path, &opened));
    const std::chrono::milliseconds delay(path == slow_path ? 20 : 0);
    *file = std::make_unique<GaugedFile>(&gauge, delay, std::move(opened));
    return Status::OK();
  }

  Gauge gauge;
  std::string slow_path;
};

class GaugedTable : public MemoryTable {
 public:
  GaugedTable(const TableSpec& spec, Gauge* gauge) : MemoryTable(spec), gauge_(gauge) {}
  Status Write(const int64_t* keys, size_t n, const char* values) override {
    gauge_->Enter();
    const Status status = MemoryTable::Write(keys, n, values);
    gauge_->Leave();
    return status;
  }

 private:
  Gauge* const gauge_;
};

class RestoreStreamsTest : public testing::Test {
 protected:
  RestoreStreamsTest() : group_(&files_) {}

  // Some hundred rows fill a block.
  static TestGroupOptions LongRows() {
    TestGroupOptions options;
    options.dim = 1024;
    options.tables = 1;
    return options;
  }

  static Keys UpTo(int64_t n) {
    Keys keys;
    for (int64_t key = 0; key < n; ++key) keys.push_back(key);
    return keys;
  }

  Watchdog watchdog_;
  GaugedFileSystem files_;
  TestGroup group_;
};

TEST_F(RestoreStreamsTest, SegmentsAreOpenedSideBySide) {
  for (uint32_t i = 0; i < 10; ++i) {
    group_.Insert({i}, 1 + i);
    group_.Cut(AllCold());
  }
  ASSERT_EQ(group_.chain().newest_first.size(), 10u);
  files_.gauge.AwaitTogether(1, 10);
  TestGroup fresh(&files_);
  ASSERT_OK(fresh.RestoreFrom(group_.chain(), 1, "run2", nullptr, /*read_threads=*/10));
  EXPECT_EQ(files_.gauge.most(), 10u);
  EXPECT_EQ(fresh.rows(), group_.rows());
}

TEST_F(RestoreStreamsTest, ManyBlocksAreReadAndFewInsertedAtOnce) {
  TestGroup group(&files_, LongRows());
  group.Insert(UpTo(4000), 1);
  group.Cut(Base());
  ASSERT_GE(group.segments().size(), 1u);
  // Behind the first block of each segment, whose opening is not what counts here.
  files_.gauge.AwaitTogether(3 * group.segments().size(), 12);
  Gauge inserts;
  TableGroup fresh({"group", 0, 1, KeyType::kInt64}, BlockBudget::Process(),
                   UpdateLogBudget::Process());
  auto table = std::make_unique<GaugedTable>(group.table(0)->spec(), &inserts);
  MemoryTable* const rows = table.get();
  ASSERT_OK(fresh.Attach(0, &fresh, std::move(table)));
  RestoreOptions options;
  options.interval = group.chain().interval;
  options.newest_first = group.chain().newest_first;
  options.read_threads = 12;
  options.threads = 2;
  RestoreResult result;
  ASSERT_OK(Restore({&fresh}, &files_, options, &result));
  EXPECT_EQ(files_.gauge.most(), 12u);
  EXPECT_LE(inserts.most(), 2u);
  EXPECT_EQ(result.rows, 4000u);
  EXPECT_EQ(rows->Rows(), group.table(0)->Rows());
}

TEST_F(RestoreStreamsTest, OneStreamReadsOneBlockAtATime) {
  TestGroup group(&files_, LongRows());
  group.Insert(UpTo(2000), 1);
  group.Cut(Base());
  group.Insert(UpTo(700), 2);
  group.Cut(AllCold());
  TestGroup fresh(&files_, LongRows());
  ASSERT_OK(fresh.RestoreFrom(group.chain(), 2, "run2", nullptr, /*read_threads=*/1));
  EXPECT_EQ(files_.gauge.most(), 1u);
  EXPECT_EQ(fresh.rows(), group.rows());
}

TEST_F(RestoreStreamsTest, KeysAreReadOnce) {
  group_.Insert({1, 2, 3}, 1);
  group_.Cut(Base());
  TestGroup fresh(&files_);
  const int before = files_.OperationCount(MemoryFileSystem::kRead);
  ASSERT_OK(fresh.RestoreFrom(group_.chain()));
  // The whole small file when it is opened, keys, and the values of both tables.
  EXPECT_EQ(files_.OperationCount(MemoryFileSystem::kRead) - before, 3);
}

TEST_F(RestoreStreamsTest, NewestCopyWinsWhicheverFileIsSlow) {
  group_.Insert(UpTo(50), 1);
  group_.Cut(Base());
  for (uint32_t i = 0; i < 5; ++i) {
    group_.Insert({0, 10 + i}, 2 + i);
    if (i == 2) group_.Remove({30, 31});
    group_.Cut(Threshold(0.9));
  }
  const Chain chain = group_.chain();
  for (const RestoreFile& file : chain.newest_first) {
    files_.slow_path = file.path;
    TestGroup fresh(&files_);
    ASSERT_OK(fresh.RestoreFrom(chain, 2, "run2", nullptr, /*read_threads=*/20));
    EXPECT_EQ(fresh.rows(), group_.rows()) << file.path;
  }
}

TEST_F(RestoreStreamsTest, FailureOfAnyReadEndsTheRestore) {
  for (uint32_t i = 0; i < 6; ++i) {
    group_.Insert(UpTo(5 + i), 1 + i);
    group_.Cut(i == 0 ? Base() : AllCold());
  }
  TestGroup fresh(&files_);
  const int before = files_.OperationCount(MemoryFileSystem::kRead);
  ASSERT_OK(fresh.RestoreFrom(group_.chain()));
  const int reads = files_.OperationCount(MemoryFileSystem::kRead) - before;
  for (int nth = 1; nth <= reads; ++nth) {
    files_.FailNth(MemoryFileSystem::kRead, nth, Internal("gone"));
    fresh.ClearTables();
    ExpectFailure(fresh.RestoreFrom(group_.chain()), StatusCode::kInternal, "gone");
  }
  fresh.ClearTables();
  ASSERT_OK(fresh.RestoreFrom(group_.chain()));
  EXPECT_EQ(fresh.rows(), group_.rows());
}

}  // namespace
}  // namespace adaptcp
