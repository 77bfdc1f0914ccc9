// SPDX-License-Identifier: Apache-2.0
// Threads that go on updating while cuts begin, drain, fail and commit: each committed checkpoint
// is made of exactly the updates that had returned when it began, none torn.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/cc/engine/scripted_updates.h"
#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

constexpr size_t kTables = 3;
const uint32_t kCuts = std::max(6u, SeedCount(8));

// Hot threshold and bytes of the block budget: none makes updates wait for the writer.
using Param = std::tuple<double, size_t>;

class OracleThreadsTest : public testing::TestWithParam<Param> {
 protected:
  explicit OracleThreadsTest(size_t tables = kTables)
      : tables_(tables), budget_(std::get<1>(GetParam())), random_(7) {
    TestGroupOptions options;
    options.tables = tables;
    // Few rows a block, so that blocks fill.
    options.dim = 2000;
    options.budget = &budget_;
    group_ = std::make_unique<TestGroup>(&files_, options);
  }

  void StartThreads(size_t n, const std::function<void(size_t)>& step) {
    for (size_t t = 0; t < n; ++t) {
      threads_.emplace_back([this, t, step] {
        while (!stop_) step(t);
      });
    }
  }
  void StopThreads() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  void BeginCut(uint32_t i) {
    CutOptions cut = Threshold(std::get<0>(GetParam()), 0.2);
    cut.base = i % 5 == 3 || group_->group()->Stats().base_required;
    ASSERT_OK(group_->Begin(cut));
  }
  // As the input pipeline does, two updates ahead of training.
  void Prefetch(const ScriptedUpdates& script, uint32_t n) {
    group_->group()->SaveBeforeUpdate([&script, n] { return script.batch(n); }, /*window=*/3);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // True when the cut was committed.
  bool FinishCut() {
    const bool fail = random_.Percent(20);
    const int nth = static_cast<int>(random_.Between(1, 20));
    if (fail) files_.FailFromNth(MemoryFileSystem::kAppend, nth, Internal("lost"));
    const Status drained = group_->Drain();
    files_.ClearFaults();
    EXPECT_TRUE(drained.ok() || fail) << drained.message();
    if (!drained.ok()) {
      group_->Fail();
      return false;
    }
    group_->Saved();
    group_->Commit();
    return true;
  }

  const size_t tables_;
  MemoryFileSystem files_;
  BlockBudget budget_;
  std::unique_ptr<TestGroup> group_;
  Random random_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// A thread, and how far its updates have come.
struct Updater {
  std::unique_ptr<ScriptedUpdates> script;
  bool logged = false;
  std::atomic<uint32_t> started{0};
  std::atomic<uint32_t> returned{0};
  uint32_t applied = 0;  // to the oracle's rows

  void Step(TestGroup* group) {
    const uint32_t n = ++started;
    if (n % 8 == 0) group->group()->WillUpdate(script->batch(n + 3));
    if (logged) {
      EXPECT_OK(script->Insert(n));
    } else {
      EXPECT_OK(group->group()->Update(script->batch(n), [&] { return script->Apply(n, n); }));
    }
    returned = n;
  }
};

class SeparateUpdatersTest : public OracleThreadsTest {
 protected:
  using OracleThreadsTest::OracleThreadsTest;

  // The updaters must not share cells: a row of a table.
  void Run(std::vector<Updater>* updaters) {
    StartThreads(updaters->size(), [&](size_t t) { (*updaters)[t].Step(group_.get()); });
    StartThreads(1, [&](size_t) {
      for (const Updater& updater : *updaters) Prefetch(*updater.script, updater.started + 2);
    });
    for (uint32_t i = 0; i < kCuts && !HasFailure(); ++i) {
      Watchdog watchdog;
      std::vector<uint32_t> least, most;
      for (const Updater& updater : *updaters) least.push_back(updater.returned);
      BeginCut(i);
      for (const Updater& updater : *updaters) most.push_back(updater.started);
      if (!FinishCut()) continue;
      const Rows restored = group_->Restored();
      for (size_t t = 0; t < updaters->size(); ++t) {
        CatchUp(restored, least[t], most[t], &(*updaters)[t]);
      }
      EXPECT_TRUE(restored == rows_) << "cut " << i;
    }
    StopThreads();
  }

 private:
  void CatchUp(const Rows& restored, uint32_t least, uint32_t most, Updater* updater) {
    const uint32_t number = updater->script->NumberIn(restored);
    EXPECT_GE(number, least);
    EXPECT_LE(number, most);
    while (updater->applied < number) {
      ++updater->applied;
      updater->script->ApplyTo(updater->applied, updater->applied, tables_, &rows_);
    }
  }

  Rows rows_;
};

TEST_P(SeparateUpdatersTest, EachThreadHasRowsOfItsOwn) {
  std::vector<Updater> updaters(3);
  for (size_t t = 0; t < updaters.size(); ++t) {
    updaters[t].script = std::make_unique<ScriptedUpdates>(static_cast<uint32_t>(t), group_.get(),
                                                           static_cast<uint32_t>(t) * 400, 300,
                                                           std::vector<size_t>{0, 1, 2});
  }
  Run(&updaters);
}

// As an optimizer updates the parameter and its slots: the same keys at about the same time.
TEST_P(SeparateUpdatersTest, EachThreadHasATableOfItsOwn) {
  std::vector<Updater> updaters(kTables);
  for (size_t t = 0; t < kTables; ++t) {
    updaters[t].script =
        std::make_unique<ScriptedUpdates>(1, group_.get(), 0, 300, std::vector<size_t>{t});
  }
  Run(&updaters);
}

// Inserts that cuts take rows from. With two threads some overlap in time, and are not logged.
class LoggedInsertsTest : public SeparateUpdatersTest {
 protected:
  LoggedInsertsTest() : SeparateUpdatersTest(/*tables=*/1) {}

  void RunThreads(size_t n) {
    std::vector<Updater> updaters(n);
    for (size_t t = 0; t < n; ++t) {
      updaters[t].logged = true;
      updaters[t].script = std::make_unique<ScriptedUpdates>(static_cast<uint32_t>(t), group_.get(),
                                                             static_cast<uint32_t>(t) * 400, 300,
                                                             std::vector<size_t>{0}, /*removed=*/0);
    }
    Run(&updaters);
  }
};

TEST_P(LoggedInsertsTest, OfOneThread) { RunThreads(1); }
TEST_P(LoggedInsertsTest, OfTwoThreads) { RunThreads(2); }

class SharedRowsTest : public OracleThreadsTest {};

// All threads update all rows. A mutex inside of the updates gives them an order; a cut must be a
// prefix of it, since Begin waits for updates in flight.
TEST_P(SharedRowsTest, CutIsAPrefixOfTheUpdates) {
  const ScriptedUpdates script(3, group_.get(), 0, 300, {0, 1, 2});
  Mutex mu;
  std::vector<uint32_t> log;  // number of the update with version i + 1
  std::atomic<uint32_t> next{0};
  const auto log_size = [&] {
    MutexLock lock(&mu);
    return log.size();
  };
  StartThreads(4, [&](size_t) {
    const uint32_t n = next++;
    if (n % 8 == 0) group_->group()->WillUpdate(script.batch(n + 5));
    EXPECT_OK(group_->group()->Update(script.batch(n), [&] {
      MutexLock lock(&mu);
      log.push_back(n);
      return script.Apply(n, static_cast<uint32_t>(log.size()));
    }));
  });
  StartThreads(1, [&](size_t) { Prefetch(script, next + 2); });
  Rows rows;
  uint32_t applied = 0;
  for (uint32_t i = 0; i < kCuts && !HasFailure(); ++i) {
    Watchdog watchdog;
    const size_t least = log_size();
    BeginCut(i);
    const size_t most = log_size();
    if (!FinishCut()) continue;
    const Rows restored = group_->Restored();
    const uint32_t number = script.NumberIn(restored);
    EXPECT_GE(number, least);
    EXPECT_LE(number, most);
    MutexLock lock(&mu);
    for (; applied < number; ++applied) {
      script.ApplyTo(log[applied], applied + 1, kTables, &rows);
    }
    EXPECT_TRUE(restored == rows) << "cut " << i;
  }
  StopThreads();
}

const auto kParams =
    testing::Combine(testing::Values(2.0, 0.0, 0.3), testing::Values(size_t{0}, size_t{1} << 30));
INSTANTIATE_TEST_SUITE_P(Policies, SeparateUpdatersTest, kParams);
INSTANTIATE_TEST_SUITE_P(Policies, LoggedInsertsTest, kParams);
INSTANTIATE_TEST_SUITE_P(Policies, SharedRowsTest, kParams);

}  // namespace
}  // namespace adaptcp
