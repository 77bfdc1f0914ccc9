// SPDX-License-Identifier: Apache-2.0
// A cut with several writer threads: which files there are, what they hold, and how they fail.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/cc/engine/no_threads.h"
#include "tests/cc/engine/test_group.h"
#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

constexpr uint32_t kDim = 2048;         // 8 KiB a row
constexpr int64_t kRowsPerBlock = 128;  // 1 MiB
const Status kDiskFull(StatusCode::kResourceExhausted, "disk full");

class ParallelWritersTest : public testing::Test {
 protected:
  static TestGroupOptions Options(size_t max_writers) {
    TestGroupOptions options;
    options.tables = 1;
    options.dim = kDim;
    options.max_writers = max_writers;
    return options;
  }
  static Keys Blocks(int64_t n, int64_t first = 0) {
    Keys keys;
    for (int64_t key = 0; key < n * kRowsPerBlock; ++key) keys.push_back(first + key);
    return keys;
  }
  static std::vector<std::string> FileNames(const TestGroup& group) {
    std::vector<std::string> names;
    for (const WrittenSegment& segment : group.segments()) names.push_back(segment.file_name);
    std::sort(names.begin(), names.end());
    return names;
  }

  Watchdog watchdog_;
  MemoryFileSystem files_;
};

TEST_F(ParallelWritersTest, AFewBlocksGoIntoOneFile) {
  TestGroup group(&files_, Options(4));
  group.Insert(Blocks(1), 1);
  group.Cut(AllCold());
  EXPECT_EQ(FileNames(group), (std::vector<std::string>{"group-1-increment.acp"}));
}

TEST_F(ParallelWritersTest, ManyBlocksAreSharedOutEvenly) {
  TestGroup group(&files_, Options(3));
  group.Insert(Blocks(12), 1);
  group.Cut(AllHot());
  EXPECT_EQ(FileNames(group),
            (std::vector<std::string>{"group-1-differential-p1.acp", "group-1-differential-p2.acp",
                                      "group-1-differential.acp"}));
  for (const WrittenSegment& segment : group.segments()) {
    // The drain may leave a few blocks short of full.
    EXPECT_NEAR(static_cast<double>(segment.summary.rows), 4 * kRowsPerBlock, 1.5 * kRowsPerBlock)
        << segment.file_name;
  }
  EXPECT_EQ(group.Restored(), group.rows());
}

TEST_F(ParallelWritersTest, NewerPartsMakeOlderOnesStale) {
  TestGroup group(&files_, Options(4));
  group.Insert(Blocks(10), 1);
  group.Cut(Base());
  group.Insert(Blocks(8, /*first=*/100), 2);
  group.Remove(Keys{150, 151, 700});
  group.Cut(Threshold(0.5));
  group.Insert(Blocks(5, /*first=*/300), 3);
  group.Cut(Threshold(0.5));
  EXPECT_GT(group.chain().newest_first.size(), 6u);
  EXPECT_EQ(group.Restored(/*threads=*/4), group.rows());
}

TEST_F(ParallelWritersTest, WritersWaitForTheDiskAtTheSameTime) {
  TestGroup group(&files_, Options(4));
  group.Insert(Blocks(8), 1);
  files_.SetDelay(MemoryFileSystem::kClose, std::chrono::milliseconds(300));
  ASSERT_OK(group.Begin(Base()));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_OK(group.Drain());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  group.Commit();
  ASSERT_EQ(group.segments().size(), 4u);
  // One after the other takes 1.2 s in any case.
  EXPECT_LT(elapsed.count(), 1.1);
}

TEST_F(ParallelWritersTest, OneWriterThatFailsLeavesNoFile) {
  for (auto operation : {MemoryFileSystem::kOpen, MemoryFileSystem::kAppend,
                         MemoryFileSystem::kSync, MemoryFileSystem::kClose}) {
    for (int nth : {1, 2, 4}) {
      SCOPED_TRACE(Concat("operation ", operation, ", number ", nth));
      TestGroup group(&files_, Options(4));
      group.set_directory(Concat("run-", operation, "-", nth));
      group.Insert(Blocks(9), 1);
      const std::vector<std::string> before = files_.Paths();
      ASSERT_OK(group.Begin(Base()));
      files_.FailNth(operation, nth, kDiskFull);
      EXPECT_EQ(group.Drain().code(), StatusCode::kResourceExhausted);
      group.Fail();
      EXPECT_EQ(files_.Paths(), before);
      files_.ClearFaults();
      // Nothing is lost.
      group.Cut(Base());
      EXPECT_EQ(group.Restored(), group.rows());
    }
  }
}

TEST_F(ParallelWritersTest, BlocksThatFilledBeforeTheDrainAreSharedOutToo) {
  TestGroup group(&files_, Options(4));
  group.Insert(Blocks(8), 1);
  ASSERT_OK(group.Begin(Base()));
  group.Insert(Blocks(8), 2);
  ASSERT_OK(group.Drain());
  group.Commit();
  EXPECT_EQ(group.segments().size(), 4u);
  Rows at_cut = group.rows();
  for (auto& [key, row] : at_cut) row = {1};
  EXPECT_EQ(group.Restored(), at_cut);
}

TEST_F(ParallelWritersTest, WriterThatCannotBeStartedLeavesAllToTheOthers) {
  TestGroup group(&files_, Options(4));
  group.Insert(Blocks(12), 1);
  ASSERT_OK(group.Begin(Base()));
  // Saved by the update: a full block, which starts the first writer as soon as the drain begins.
  Keys updated = Blocks(2);
  updated.resize(kRowsPerBlock + kRowsPerBlock / 4);
  group.Insert(updated, 2);
  group.table(0)->PauseNextRead();
  Status drained;
  std::thread drain([&] { drained = group.Drain(); });
  group.table(0)->AwaitPausedRead();
  {
    const NoThreads no_threads;
    group.table(0)->ResumeRead();
    drain.join();
  }
  ASSERT_OK(drained);
  group.Commit();
  EXPECT_EQ(FileNames(group), (std::vector<std::string>{"group-1-base.acp"}));
  Rows at_cut = group.rows();
  for (auto& [key, row] : at_cut) row = {1};
  EXPECT_EQ(group.Restored(), at_cut);
}

TEST_F(ParallelWritersTest, CutWithoutAnyWriterFailsAndLosesNothing) {
  TestGroup group(&files_, Options(4));
  group.Insert(Blocks(2 * BlockPool::kBacklogBlocks), 1);
  ASSERT_OK(group.Begin(AllCold()));
  group.Insert(Blocks(3), 2);
  {
    const NoThreads no_threads;
    ExpectFailure(group.Drain(), StatusCode::kResourceExhausted, "no thread could be started");
    // Updates do not care.
    group.Insert(Blocks(2 * BlockPool::kBacklogBlocks), 3);
  }
  group.Fail();
  EXPECT_TRUE(files_.Paths().empty());
  group.Cut(AllCold());
  EXPECT_EQ(group.Restored(), group.rows());
}

TEST_F(ParallelWritersTest, CutThatIsGivenUpBeforeItsDrainStartsNoThread) {
  TestGroup group(&files_, Options(4));
  group.Insert(Blocks(4), 1);
  ASSERT_OK(group.Begin(AllCold()));
  group.Insert(Blocks(4), 2);
  group.Fail();
  EXPECT_TRUE(files_.Paths().empty());
  group.Cut(AllCold());
  EXPECT_EQ(group.Restored(), group.rows());
}

}  // namespace
}  // namespace adaptcp
