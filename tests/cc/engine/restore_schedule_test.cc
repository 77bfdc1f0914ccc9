// SPDX-License-Identifier: Apache-2.0
// Who waits for whom in a restore: turns, memory, cores, and the end of waiting at a failure.

#include "custom_ops/engine/restore_schedule.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "custom_ops/engine/parallel_for.h"
#include "tests/cc/engine/test_length.h"
#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace {

// A call on a thread of its own, which may have to wait.
class Call {
 public:
  explicit Call(const std::function<Status()>& call)
      : thread_([this, call] {
          status_ = call();
          returned_ = true;
        }) {}
  ~Call() {
    if (thread_.joinable()) thread_.join();
  }

  // False also when it is merely slow: only a true answer is sure.
  bool Returned() {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return returned_;
  }
  Status Await() {
    thread_.join();
    return status_;
  }

 private:
  Status status_;
  std::atomic<bool> returned_{false};
  std::thread thread_;
};

class RestoreScheduleTest : public testing::Test {
 protected:
  Watchdog watchdog_;
};

TEST_F(RestoreScheduleTest, BlocksAreAdmittedInOrder) {
  RestoreSchedule schedule({3}, 100, 1);
  Call third([&] { return schedule.Admit(2, 10); });
  Call second([&] { return schedule.Admit(1, 10); });
  EXPECT_FALSE(third.Returned() || second.Returned());
  ASSERT_OK(schedule.Admit(0, 10));
  EXPECT_OK(second.Await());
  EXPECT_OK(third.Await());
}

TEST_F(RestoreScheduleTest, BlocksWaitForMemory) {
  RestoreSchedule schedule({3}, 100, 1);
  ASSERT_OK(schedule.Admit(0, 60));
  Call second([&] { return schedule.Admit(1, 60); });
  // It would fit, but it is not its turn.
  Call third([&] { return schedule.Admit(2, 10); });
  EXPECT_FALSE(second.Returned() || third.Returned());
  schedule.Release(60);
  EXPECT_OK(second.Await());
  EXPECT_OK(third.Await());
}

TEST_F(RestoreScheduleTest, BlockLargerThanAllMemoryComesAlone) {
  RestoreSchedule schedule({3}, 100, 1);
  ASSERT_OK(schedule.Admit(0, 1));
  Call large([&] { return schedule.Admit(1, 1000); });
  EXPECT_FALSE(large.Returned());
  schedule.Release(1);
  EXPECT_OK(large.Await());
  Call next([&] { return schedule.Admit(2, 1); });
  EXPECT_FALSE(next.Returned());
  schedule.Release(1000);
  EXPECT_OK(next.Await());
}

TEST_F(RestoreScheduleTest, CutsWaitForAllBlocksOfNewerOnes) {
  // The second cut has no blocks.
  RestoreSchedule schedule({2, 0, 1, 1}, 100, 1);
  ASSERT_OK(schedule.AwaitNewerThan(0));
  Call third([&] { return schedule.AwaitNewerThan(2); });
  Call fourth([&] { return schedule.AwaitNewerThan(3); });
  schedule.BlockKnown(0);
  EXPECT_FALSE(third.Returned());
  schedule.BlockKnown(0);
  EXPECT_OK(third.Await());
  EXPECT_FALSE(fourth.Returned());
  schedule.BlockKnown(2);
  EXPECT_OK(fourth.Await());
}

TEST_F(RestoreScheduleTest, SlotsAreLimited) {
  RestoreSchedule schedule({1}, 100, 2);
  ASSERT_OK(schedule.TakeSlot());
  ASSERT_OK(schedule.TakeSlot());
  Call third([&] { return WorkSlot(&schedule).status(); });
  EXPECT_FALSE(third.Returned());
  schedule.GiveBackSlot();
  EXPECT_OK(third.Await());
  // Which gave its slot back.
  EXPECT_OK(schedule.TakeSlot());
}

TEST_F(RestoreScheduleTest, FailureEndsAllWaiting) {
  RestoreSchedule schedule({2, 1}, 100, 1);
  ASSERT_OK(schedule.Admit(0, 100));
  ASSERT_OK(schedule.TakeSlot());
  Call memory([&] { return schedule.Admit(1, 10); });
  Call turn([&] { return schedule.AwaitNewerThan(1); });
  Call slot([&] { return WorkSlot(&schedule).status(); });
  ExpectFailure(schedule.Fail(Internal("gone")), StatusCode::kInternal, "gone");
  for (Call* call : {&memory, &turn, &slot}) {
    ExpectFailure(call->Await(), StatusCode::kInternal, "gone");
  }
  ExpectFailure(schedule.Fail(Internal("later")), StatusCode::kInternal, "gone");
}

// Whatever the sizes, nobody waits for ever, memory stays within its bound, and cuts keep their
// order.
TEST_F(RestoreScheduleTest, RandomBlocksAllComeThrough) {
  for (uint32_t seed = 0; seed < SeedCount(50); ++seed) {
    std::mt19937 random(seed);
    std::vector<size_t> blocks_of_cuts, cut_of, bytes;
    for (size_t cut = 0; cut < 12; ++cut) {
      blocks_of_cuts.push_back(random() % 5);
      for (size_t i = 0; i < blocks_of_cuts.back(); ++i) {
        cut_of.push_back(cut);
        bytes.push_back(random() % 8 == 0 ? 150 : random() % 60);
      }
    }
    RestoreSchedule schedule(blocks_of_cuts, 100, 2);
    std::atomic<size_t> taken{0}, working{0}, newest{0};
    ASSERT_OK(ParallelFor(cut_of.size(), 1 + random() % 12, [&](size_t i) {
      ADAPTCP_RETURN_IF_ERROR(schedule.Admit(i, bytes[i]));
      const size_t now = taken += bytes[i];
      EXPECT_TRUE(now <= 100 || now == bytes[i]) << now;
      ADAPTCP_RETURN_IF_ERROR(schedule.AwaitNewerThan(cut_of[i]));
      {
        const WorkSlot slot(&schedule);
        ADAPTCP_RETURN_IF_ERROR(slot.status());
        EXPECT_LE(++working, 2u);
        EXPECT_LE(newest.exchange(cut_of[i]), cut_of[i]);
        --working;
      }
      schedule.BlockKnown(cut_of[i]);
      taken -= bytes[i];
      schedule.Release(bytes[i]);
      return Status::OK();
    }));
  }
}

}  // namespace
}  // namespace adaptcp
