// SPDX-License-Identifier: Apache-2.0
// Random interleavings of updates, cuts, failures and restores: every committed checkpoint restores
// exactly what plain maps say the tables held at the cut.

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/cc/engine/random_updates.h"
#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

// One training run with one updating thread; the drain may have a thread of its own, and so may the
// input pipeline.
class OracleRun {
 public:
  explicit OracleRun(uint32_t seed)
      : random_(seed),
        budget_(random_.OneOf<size_t>({0, size_t{1} << 30})),
        log_budget_(random_.OneOf<size_t>({5000, size_t{1} << 30})),
        group_(std::make_unique<TestGroup>(&files_, RandomOptions())),
        updates_(seed + 1, options_.tables, RandomMix(), {group_.get()}),
        threshold_(random_.OneOf({2.0, 0.0, 0.3, 0.1})),
        hysteresis_(random_.OneOf({0.0, 0.2})) {
    if (random_.Percent(2)) SkipTags(4070);
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      if (random_.Percent(10)) Prefetch();
      if (random_.Percent(75)) {
        updates_.Step();
      } else {
        StepCut();
      }
    }
    FinishCut();
    if (input_.joinable()) input_.join();
    // After quiescing, a checkpoint equals the live tables.
    updates_.FinishAll();
    EXPECT_EQ(group_->rows(), updates_.rows());
    files_.ClearFaults();
    BeginCut();
    StartDrain(/*with_faults=*/false);
    FinishCut(/*always_commit=*/true);
    Snapshot{updates_.rows(), {}}.ExpectEq(group_->Restored());
  }

 private:
  enum class State { kNone, kBegun, kDraining };

  TestGroupOptions RandomOptions() {
    options_.tables = random_.Between(1, 3);
    options_.dim = random_.OneOf({1, 3, 500});
    options_.max_writers = random_.OneOf({1, 2, 4});
    options_.budget = &budget_;
    options_.log_budget = &log_budget_;
    if (random_.Percent(20)) options_.group.key_type = KeyType::kString;
    return options_;
  }

  UpdateMix RandomMix() {
    UpdateMix mix;
    mix.keys = random_.OneOf({4, 30, 300, 2000});
    mix.max_batch = random_.OneOf({3, 20, 200});
    mix.one_stripe = random_.Percent(50);
    mix.accumulates = random_.Percent(50);
    mix.one_by_one = random_.Percent(50);
    return mix;
  }

  // Cuts are told apart by tags of 12 bits: makes them wrap soon.
  void SkipTags(int n) {
    for (int i = 0; i < n; ++i) {
      ASSERT_OK(group_->Begin(AllCold()));
      group_->Fail();
    }
  }

  void StepCut() {
    switch (state_) {
      case State::kNone:
        if (random_.Percent(10)) {
          updates_.Replace();
          base_required_ = true;
        }
        BeginCut();
        break;
      case State::kBegun:
        if (stop_and_copy_ && random_.Percent(50)) {
          // Late: nothing may depend on updates having waited for it. Refused if it was copied.
          (void)group_->group()->CopyRows().ok();
        } else if (random_.Percent(5)) {
          group_->Fail();
          Failed();
        } else {
          StartDrain(/*with_faults=*/random_.Percent(20));
        }
        break;
      case State::kDraining:
        FinishCut();
        break;
    }
  }

  void BeginCut() {
    cut_ =
        Threshold(random_.Percent(80) ? threshold_ : random_.OneOf({2.0, 0.0, 0.3}), hysteresis_);
    cut_.base = random_.Percent(15);
    stop_and_copy_ = random_.Percent(20);
    EXPECT_EQ(group_->group()->Stats().base_required, base_required_);
    if (base_required_ && !cut_.base) {
      EXPECT_EQ(group_->Begin(cut_).code(), StatusCode::kFailedPrecondition);
      cut_.base = true;
    }
    ASSERT_OK(group_->Begin(cut_));
    snapshot_ = updates_.TakeSnapshot();
    replaced_ = false;
    state_ = State::kBegun;
    if (stop_and_copy_ && random_.Percent(50)) ASSERT_OK(group_->group()->CopyRows());
  }

  // Rightly or wrongly.
  void Prefetch() {
    if (input_.joinable()) {
      // It may wait for a drain that this thread has to start.
      if (state_ == State::kBegun) return;
      input_.join();
    }
    std::vector<Keys> batches(random_.Between(1, 4));
    for (Keys& keys : batches) keys = updates_.RandomKeys();
    const size_t window = random_.Between(1, 4);
    input_ = std::thread([group = group_.get(), batches, window] {
      for (const Keys& keys : batches) group->Prefetch(keys, window);
    });
    if (state_ != State::kBegun && random_.Percent(50)) input_.join();
  }

  void StartDrain(bool with_faults) {
    if (with_faults) InjectFault();
    state_ = State::kDraining;
    if (random_.Percent(50)) {
      drain_status_ = group_->Drain();
    } else {
      drain_ = std::thread([this] { drain_status_ = group_->Drain(); });
    }
  }

  void InjectFault() {
    const Status full(StatusCode::kResourceExhausted, "disk full");
    const int nth = static_cast<int>(random_.Between(1, 12));
    switch (random_.Below(5)) {
      case 0:
        files_.FailNth(MemoryFileSystem::kOpen, 1, full);
        break;
      case 1:
        files_.FailFromNth(MemoryFileSystem::kAppend, nth, full);
        break;
      case 2:
        files_.FailNth(MemoryFileSystem::kSync, random_.Percent(50) ? 1 : 2, full);
        break;
      case 3:
        files_.FailNth(MemoryFileSystem::kClose, 1, full);
        break;
      case 4:
        group_->table(random_.Below(static_cast<uint32_t>(options_.tables)))
            ->FailNthRead(nth, Internal("no such row"));
        break;
    }
  }

  void FinishCut(bool always_commit = false) {
    if (state_ == State::kBegun) StartDrain(/*with_faults=*/false);
    if (state_ == State::kNone) return;
    if (drain_.joinable()) drain_.join();
    files_.ClearFaults();
    for (size_t t = 0; t < options_.tables; ++t) group_->table(t)->ClearFaults();
    state_ = State::kNone;
    // Every row is saved and the cut not ended: the tables may be replaced now.
    if (!always_commit && random_.Percent(5)) {
      updates_.Replace();
      replaced_ = true;
    }
    if (drain_status_.ok() && (always_commit || random_.Percent(90))) {
      Committed();
    } else {
      if (!drain_status_.ok()) {
        EXPECT_EQ(group_->group()->EndCut(true).code(), StatusCode::kFailedPrecondition);
      }
      group_->Fail();
      Failed();
    }
  }

  void Failed() {
    if (cut_.base || replaced_) base_required_ = true;
    state_ = State::kNone;
  }

  void Committed() {
    group_->Saved();
    group_->Commit();
    if (cut_.base) base_required_ = false;
    if (replaced_) base_required_ = true;
    snapshot_.ExpectEq(group_->Restored(random_.Between(1, 3)));
    if (random_.Percent(20)) KillAndResume();
  }

  // Updates made after the cut are lost, and the run goes on from the checkpoint.
  void KillAndResume() {
    auto restored = std::make_unique<TestGroup>(&files_, options_);
    ASSERT_OK(
        restored->RestoreFrom(group_->chain(), random_.Between(1, 3), Concat("run", ++restarts_)));
    if (input_.joinable()) input_.join();
    group_ = std::move(restored);
    updates_.Resume({group_.get()}, group_->rows());
    base_required_ = false;
  }

  Random random_;
  MemoryFileSystem files_;
  BlockBudget budget_;
  UpdateLogBudget log_budget_;
  TestGroupOptions options_;
  std::unique_ptr<TestGroup> group_;
  RandomUpdates updates_;
  const double threshold_;
  const double hysteresis_;

  State state_ = State::kNone;
  CutOptions cut_;
  bool stop_and_copy_ = false;
  Snapshot snapshot_;
  bool replaced_ = false;  // since the cut began
  bool base_required_ = false;
  std::thread drain_;
  std::thread input_;
  Status drain_status_;
  int restarts_ = 1;
};

TEST(OracleTest, EveryCommittedCutRestoresItsInstant) {
  for (uint32_t seed = 0; seed < SeedCount(2000); ++seed) {
    Watchdog watchdog;
    SCOPED_TRACE(Concat("seed ", seed));
    OracleRun(seed).Run(120);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace adaptcp
