// SPDX-License-Identifier: Apache-2.0
// Loops on several threads.

#include "custom_ops/engine/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/cc/engine/no_threads.h"
#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

TEST(ParallelForTest, EachIterationRunsOnce) {
  for (size_t threads : {0, 1, 2, 7, 2000}) {
    for (size_t n : {0, 1, 6, 1000}) {
      std::vector<std::atomic<int>> runs(n);
      const Status status = ParallelFor(n, threads, [&](size_t i) {
        ++runs[i];
        return Status::OK();
      });
      EXPECT_TRUE(status.ok());
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ParallelForTest, OneThreadRunsInOrderOnTheCaller) {
  std::vector<size_t> order;
  ASSERT_TRUE(ParallelFor(5, 1, [&](size_t i) {
                order.push_back(i);
                return Status::OK();
              }).ok());
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4}));
}

TEST(ParallelForTest, ThreadsRunAtTheSameTime) {
  Watchdog watchdog;
  // Each iteration waits for all others to have started.
  std::atomic<int> started{0};
  ASSERT_TRUE(ParallelFor(4, 4, [&](size_t) {
                ++started;
                while (started < 4) std::this_thread::yield();
                return Status::OK();
              }).ok());
}

TEST(ParallelForTest, CallerRunsAllWhenNoThreadCanBeStarted) {
  const NoThreads no_threads;
  std::vector<size_t> order;
  ASSERT_TRUE(ParallelFor(5, 3, [&](size_t i) {
                order.push_back(i);
                return Status::OK();
              }).ok());
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4}));
}

TEST(ParallelForTest, ErrorStopsTheLoopAndIsReturned) {
  std::atomic<int> runs{0};
  const Status status = ParallelFor(1000, 1, [&](size_t i) {
    ++runs;
    return i == 3 ? Internal("third") : Status::OK();
  });
  EXPECT_EQ(status.message(), "third");
  EXPECT_EQ(runs, 4);
}

TEST(ParallelForTest, ErrorOfAnyThreadIsReturned) {
  for (size_t failing = 0; failing < 50; ++failing) {
    const Status status = ParallelFor(
        50, 3, [&](size_t i) { return i == failing ? Internal("iteration ", i) : Status::OK(); });
    EXPECT_EQ(status.message(), Concat("iteration ", failing));
  }
}

}  // namespace
}  // namespace adaptcp
