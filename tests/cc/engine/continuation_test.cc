// SPDX-License-Identifier: Apache-2.0
// A restored run goes on like one that was never interrupted: later cuts hold the same rows, in the
// same classes, with the same rates and intervals.

#include <gtest/gtest.h>

#include <memory>

#include "tests/cc/engine/random_updates.h"
#include "tests/cc/engine/test_length.h"

namespace adaptcp {
namespace {

class ContinuationRun {
 public:
  explicit ContinuationRun(uint32_t seed)
      : random_(seed),
        uninterrupted_(&files_, RandomOptions()),
        restored_(&files_, options_),
        updates_(seed + 1, options_.tables, RandomMix(), {&uninterrupted_}),
        threshold_(random_.OneOf({2.0, 0.0, 0.3, 0.15})),
        hysteresis_(random_.OneOf({0.0, 0.2})) {}

  void Run() {
    for (uint32_t cuts = random_.Between(1, 6); cuts > 0; --cuts) CutAll({&uninterrupted_});
    updates_.FinishAll();
    uninterrupted_.Cut(RandomCut());
    ASSERT_OK(restored_.RestoreFrom(uninterrupted_.chain(), random_.Between(1, 3)));
    EXPECT_EQ(restored_.rows(), updates_.rows());
    updates_.Resume({&uninterrupted_, &restored_}, updates_.rows());
    for (int cuts = 0; cuts < 6 && !testing::Test::HasFailure(); ++cuts) {
      CutAll({&uninterrupted_, &restored_});
      ExpectSame();
    }
  }

 private:
  TestGroupOptions RandomOptions() {
    options_.tables = random_.Between(1, 3);
    if (random_.Percent(20)) options_.group.key_type = KeyType::kString;
    return options_;
  }

  UpdateMix RandomMix() {
    UpdateMix mix;
    if (random_.Percent(30)) {
      mix.keys = 2000;
      mix.max_batch = 200;
    }
    mix.one_stripe = random_.Percent(50);
    return mix;
  }

  CutOptions RandomCut() {
    CutOptions cut = Threshold(threshold_, hysteresis_);
    cut.base = random_.Percent(15) || uninterrupted_.group()->Stats().base_required;
    return cut;
  }

  void UpdateSome() {
    for (uint32_t n = random_.Between(0, 15); n > 0; --n) updates_.Step();
  }

  void CutAll(const std::vector<TestGroup*>& groups) {
    UpdateSome();
    const CutOptions cut = RandomCut();
    for (TestGroup* group : groups) ASSERT_OK(group->Begin(cut));
    UpdateSome();
    for (TestGroup* group : groups) ASSERT_OK(group->Drain());
    UpdateSome();
    const bool fail = random_.Percent(10);
    for (TestGroup* group : groups) fail ? group->Fail() : group->Commit();
  }

  void ExpectSame() {
    EXPECT_EQ(uninterrupted_.Saved(), restored_.Saved());
    EXPECT_EQ(uninterrupted_.Restored(), restored_.Restored());
    const GroupStats expected = uninterrupted_.group()->Stats();
    const GroupStats found = restored_.group()->Stats();
    EXPECT_EQ(expected.rows, found.rows);
    EXPECT_EQ(expected.interval, found.interval);
    EXPECT_EQ(expected.base_required, found.base_required);
  }

  Random random_;
  MemoryFileSystem files_;
  TestGroupOptions options_;
  TestGroup uninterrupted_;
  TestGroup restored_;
  RandomUpdates updates_;
  const double threshold_;
  const double hysteresis_;
};

TEST(ContinuationTest, LaterCutsAreThoseOfAnUninterruptedRun) {
  for (uint32_t seed = 0; seed < SeedCount(200); ++seed) {
    Watchdog watchdog;
    SCOPED_TRACE(Concat("seed ", seed));
    ContinuationRun(seed).Run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace adaptcp
