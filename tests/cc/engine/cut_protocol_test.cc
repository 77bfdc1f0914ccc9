// SPDX-License-Identifier: Apache-2.0
// The order of begin, drain, end, replace and restore: what is refused, and what waits for what.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "tests/cc/engine/test_group.h"
#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

constexpr StatusCode kRefused = StatusCode::kFailedPrecondition;

class CutProtocolTest : public testing::Test {
 protected:
  CutProtocolTest() : group_(&files_), other_(&files_, NamedOther()) {}

  static TestGroupOptions NamedOther() {
    TestGroupOptions options;
    options.group.name = "other";
    return options;
  }
  Status BeginBoth(CutOptions options, uint32_t interval) {
    options.interval = interval;
    return TableGroup::Begin({group_.group(), other_.group()}, options);
  }
  // Neither has an active cut nor has left interval n.
  void ExpectNoneBegan(uint32_t n) {
    for (TestGroup* group : {&group_, &other_}) {
      EXPECT_FALSE(group->group()->Stats().cut_active);
      EXPECT_EQ(group->group()->Stats().interval, n);
    }
  }

  Watchdog watchdog_;
  MemoryFileSystem files_;
  TestGroup group_;
  TestGroup other_;
};

TEST_F(CutProtocolTest, BeginCutsAllGroupsAtOnce) {
  group_.Insert({1}, 1);
  other_.Insert({1}, 2);
  CutOptions options = AllCold();
  options.interval = 1;
  // Naming a group twice is the same as once.
  ASSERT_OK(TableGroup::Begin({group_.group(), other_.group(), group_.group()}, options));
  for (TestGroup* group : {&group_, &other_}) {
    EXPECT_TRUE(group->group()->Stats().cut_active);
    EXPECT_EQ(group->group()->Stats().interval, 2u);
    group->Began(options);
    group->Insert({1}, 3);
    ASSERT_OK(group->Drain());
    group->Commit();
  }
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
}

TEST_F(CutProtocolTest, CutOfSeveralGroupsIsOneInstant) {
  std::atomic<bool> stop{false};
  std::thread updates([&] {
    for (uint32_t version = 1; !stop; ++version) {
      group_.Insert({1}, version);
      other_.Insert({1}, version);
    }
  });
  for (uint32_t interval = 1; interval <= 50; ++interval) {
    CutOptions options = AllCold();
    options.interval = interval;
    ASSERT_OK(BeginBoth(options, interval));
    for (TestGroup* group : {&group_, &other_}) {
      group->Began(options);
      ASSERT_OK(group->Drain());
      group->Commit();
    }
    const Rows first = group_.Restored(), second = other_.Restored();
    const uint32_t ahead = first.empty() ? 0 : first.at(1)[0];
    const uint32_t behind = second.empty() ? 0 : second.at(1)[0];
    EXPECT_TRUE(ahead == behind || ahead == behind + 1) << ahead << " and " << behind;
  }
  stop = true;
  updates.join();
}

TEST_F(CutProtocolTest, BeginFailsForAllGroupsWhenOneNeedsABase) {
  other_.Replace({1}, 1);
  ExpectFailure(BeginBoth(AllCold(), 1), kRefused, "'other' were cleared or imported");
  ExpectNoneBegan(1);
  ASSERT_OK(BeginBoth(Base(), 1));
}

TEST_F(CutProtocolTest, BeginFailsForAllGroupsWhenOneIsStillBusy) {
  ASSERT_OK(other_.Begin(AllCold()));
  ExpectFailure(BeginBoth(AllCold(), 2), kRefused,
                "'other' is still saving the checkpoint of "
                "interval 1; end it before the next");
  EXPECT_FALSE(group_.group()->Stats().cut_active);
  EXPECT_EQ(group_.group()->Stats().interval, 1u);
}

TEST_F(CutProtocolTest, BeginFailsForAllGroupsWhenOneIsAheadOfTheInterval) {
  other_.Cut(AllCold());
  ExpectFailure(BeginBoth(AllCold(), 1), StatusCode::kInvalidArgument,
                "expected a checkpoint of interval 2 to 67108862, received 1");
  EXPECT_FALSE(group_.group()->Stats().cut_active);
  EXPECT_FALSE(other_.group()->Stats().cut_active);
}

TEST_F(CutProtocolTest, GroupThatIsBehindSkipsAhead) {
  other_.Cut(AllCold());
  group_.Insert({1}, 1);
  ASSERT_OK(BeginBoth(AllCold(), 2));
  EXPECT_EQ(group_.group()->Stats().interval, 3u);
  CutOptions options = AllCold();
  options.interval = 2;
  group_.Began(options);
  ASSERT_OK(group_.Drain());
  group_.Commit();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
}

TEST_F(CutProtocolTest, BeginRefusesAGroupWithoutTables) {
  TableGroup empty({"empty", 0, 1, KeyType::kInt64}, BlockBudget::Process(),
                   UpdateLogBudget::Process());
  CutOptions options = AllCold();
  options.interval = 1;
  ExpectFailure(TableGroup::Begin({group_.group(), &empty}, options), kRefused,
                "'empty' has no table");
  EXPECT_FALSE(group_.group()->Stats().cut_active);
}

TEST_F(CutProtocolTest, BeginRefusesThresholdsThatAreNone) {
  for (double value : {-0.1, std::nan(""), -std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(group_.Begin(Threshold(value)).code(), StatusCode::kInvalidArgument) << value;
    EXPECT_EQ(group_.Begin(Threshold(0.5, value)).code(), StatusCode::kInvalidArgument) << value;
  }
  EXPECT_OK(group_.Begin(Threshold(std::numeric_limits<double>::infinity())));
}

TEST_F(CutProtocolTest, IntervalsEnd) {
  Chain chain;
  chain.interval = kMaxInterval;
  EXPECT_EQ(group_.RestoreFrom(chain).code(), StatusCode::kInvalidArgument);
  chain.interval = kMaxInterval - 2;
  ASSERT_OK(group_.RestoreFrom(chain));
  group_.Insert({1}, 1);
  group_.Cut(AllHot());
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
  group_.Insert({1}, 2);
  EXPECT_EQ(group_.Begin(AllHot()).code(), StatusCode::kInvalidArgument);
}

TEST_F(CutProtocolTest, DrainAndEndOutOfOrderAreRefused) {
  ExpectFailure(group_.Drain(), kRefused, "no checkpoint to drain");
  EXPECT_EQ(group_.group()->EndCut(false).code(), kRefused);
  ASSERT_OK(group_.Begin(AllCold()));
  EXPECT_EQ(group_.group()->EndCut(true).code(), kRefused);
  ASSERT_OK(group_.Drain());
  ExpectFailure(group_.Drain(), kRefused, "no checkpoint to drain");
  group_.Commit();
  EXPECT_EQ(group_.group()->EndCut(true).code(), kRefused);
  EXPECT_EQ(group_.group()->EndCut(false).code(), kRefused);
}

TEST_F(CutProtocolTest, CutCannotBeEndedWhileItDrains) {
  group_.Insert({1}, 1);
  ASSERT_OK(group_.Begin(AllCold()));
  files_.SetDelay(MemoryFileSystem::kAppend, std::chrono::milliseconds(20));
  std::thread drain([&] { EXPECT_OK(group_.Drain()); });
  while (files_.OperationCount(MemoryFileSystem::kOpen) == 0) std::this_thread::yield();
  EXPECT_EQ(group_.group()->EndCut(false).code(), kRefused);
  EXPECT_EQ(group_.group()->EndCut(true).code(), kRefused);
  drain.join();
  group_.Commit();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
}

TEST_F(CutProtocolTest, DestroyedGroupGivesItsCutUp) {
  TestGroup group(&files_);
  group.Insert({1}, 1);
  ASSERT_OK(group.Begin(AllCold()));
  group.Insert({1}, 2);
}

TEST_F(CutProtocolTest, RestoreIsRefusedWhileACutIsActive) {
  ASSERT_OK(group_.Begin(AllCold()));
  ExpectFailure(group_.RestoreFrom(Chain()), kRefused, "still saving");
}

TEST_F(CutProtocolTest, AttachTakesTablesInOrderAndOnce) {
  TableGroup* group = group_.group();
  const auto make = [] { return std::make_unique<MemoryTable>(MakeTable("late", "float32", 1)); };
  int identity, another;
  EXPECT_EQ(group->Attach(3, &identity, make()).code(), kRefused);
  EXPECT_OK(group->Attach(2, &identity, make()));
  EXPECT_OK(group->Attach(2, &identity, make()));
  ExpectFailure(group->Attach(2, &another, make()), kRefused, "already has a table number 2");
  EXPECT_TRUE(group->IsAttached(2, &identity));
  EXPECT_FALSE(group->IsAttached(2, &another));
  EXPECT_FALSE(group->IsAttached(3, &identity));
  EXPECT_EQ(group->tables().size(), 3u);
}

TEST_F(CutProtocolTest, AdoptedRowsAreInTheNextCut) {
  ASSERT_OK(group_.WriteAll({1, 2}, 1));
  const Keys keys = {1, 2};
  ASSERT_OK(group_.group()->Adopt(keys.data(), keys.size()));
  group_.Cut(AllCold());
  EXPECT_EQ(group_.Restored(), group_.rows());
}

// --- Replacement ---

TEST_F(CutProtocolTest, ReplacedTablesNeedABase) {
  group_.Insert({1, 2}, 1);
  group_.Cut(AllHot());
  group_.Insert({3}, 1);
  group_.Replace({2, 4}, 2);
  EXPECT_TRUE(group_.group()->Stats().base_required);
  EXPECT_EQ(group_.group()->Stats().rows, 2u);
  EXPECT_EQ(group_.Begin(AllHot()).code(), kRefused);
  group_.Cut(Base());
  EXPECT_FALSE(group_.group()->Stats().base_required);
  EXPECT_EQ(group_.Restored(), (Rows{{2, {2, 2}}, {4, {2, 2}}}));
}

TEST_F(CutProtocolTest, NoCutBeginsDuringAReplacement) {
  group_.group()->BeforeReplace();
  EXPECT_EQ(group_.Begin(Base()).code(), kRefused);
  EXPECT_OK(group_.group()->AfterReplace(nullptr, 0));
  EXPECT_OK(group_.Begin(Base()));
}

TEST_F(CutProtocolTest, ReplacementWaitsUntilTheCutNeedsNoRow) {
  group_.Insert({1}, 1);
  ASSERT_OK(group_.Begin(AllCold()));
  std::atomic<bool> replaced{false};
  std::thread replacement([&] {
    group_.Replace({2}, 2);
    replaced = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(replaced);
  ASSERT_OK(group_.Drain());
  replacement.join();
  group_.Commit();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}}));
  group_.Cut(Base());
  EXPECT_EQ(group_.Restored(), (Rows{{2, {2, 2}}}));
}

TEST_F(CutProtocolTest, ReplacementGoesOnWhenTheCutIsGivenUp) {
  group_.Insert({1}, 1);
  ASSERT_OK(group_.Begin(AllCold()));
  std::thread replacement([&] { group_.Replace({2}, 2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  group_.Fail();
  replacement.join();
  group_.Cut(Base());
  EXPECT_EQ(group_.Restored(), (Rows{{2, {2, 2}}}));
}

TEST_F(CutProtocolTest, BaseBegunBeforeAReplacementDoesNotDescribeIt) {
  group_.Insert({1, 2}, 1);
  ASSERT_OK(group_.Begin(Base()));
  ASSERT_OK(group_.Drain());
  group_.Replace({2}, 2);
  group_.Commit();
  EXPECT_TRUE(group_.group()->Stats().base_required);
  EXPECT_EQ(group_.Restored(), (Rows{{1, {1, 1}}, {2, {1, 1}}}));
  group_.Cut(Base());
  EXPECT_EQ(group_.Restored(), (Rows{{2, {2, 2}}}));
}

TEST_F(CutProtocolTest, ReplacementWithoutWaitingIsAnError) {
  group_.Insert({1}, 1);
  ASSERT_OK(group_.Begin(AllCold()));
  ExpectFailure(group_.group()->AfterReplace(nullptr, 0), kRefused,
                "replaced while a checkpoint still needed their rows");
}

// Cuts and replacements on two threads: neither may overtake the other half-way.
TEST_F(CutProtocolTest, ReplacementsAndCutsTakeTurns) {
  std::atomic<bool> stop{false};
  std::thread replacements([&] {
    for (uint32_t version = 1; !stop; ++version) group_.Replace({1, 2, version}, version);
  });
  for (int i = 0; i < 100; ++i) {
    const Status begun = group_.Begin(Base());
    if (!begun.ok()) {
      EXPECT_EQ(begun.code(), kRefused);
      continue;
    }
    ASSERT_OK(group_.Drain());
    group_.Commit();
    // Of one replacement, whole; none before the first.
    const Rows rows = group_.Restored();
    if (rows.empty()) continue;
    const uint32_t version = rows.begin()->second[0];
    Rows expected;
    for (int64_t key : {int64_t{1}, int64_t{2}, int64_t{version}}) {
      expected[key] = {version, version};
    }
    EXPECT_EQ(rows, expected);
  }
  stop = true;
  replacements.join();
}

}  // namespace
}  // namespace adaptcp
