// SPDX-License-Identifier: Apache-2.0
// Cuts are told apart by tags that come round again after kMaxSavedTag cuts.

#include <gtest/gtest.h>

#include "tests/cc/engine/test_group.h"

namespace adaptcp {
namespace {

// Lets `n` cuts pass that save nothing.
void SkipCuts(TestGroup* group, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    ASSERT_OK(group->Begin(AllCold()));
    group->Fail();
  }
}

TEST(SavedTagTest, RowIsSavedAgainByACutWithTheTagOfTheLast) {
  // Whatever the tag of a row's last cut, and however tags are given out: the row was saved
  // `distance` cuts ago.
  for (uint32_t distance : {kMaxSavedTag - 1, kMaxSavedTag, kMaxSavedTag + 1}) {
    for (uint32_t first : {0u, 1u, 5u, kMaxSavedTag - 1, kMaxSavedTag}) {
      MemoryFileSystem files;
      TestGroup group(&files);
      SkipCuts(&group, first);
      group.Insert({1, 2}, 1);
      group.Cut(AllCold());
      SkipCuts(&group, distance - 1);
      group.Insert({1}, 2);
      ASSERT_OK(group.Begin(AllCold()));
      group.Insert({1}, 3);
      ASSERT_OK(group.Drain());
      group.Commit();
      EXPECT_EQ(group.Restored(), (Rows{{1, {2, 2}}, {2, {1, 1}}})) << first << " " << distance;
    }
  }
}

TEST(SavedTagTest, StandingRowsAreInEveryCutAcrossTheWrap) {
  MemoryFileSystem files;
  TestGroup group(&files);
  group.Insert({1}, 1);
  group.Cut(AllHot());
  SkipCuts(&group, kMaxSavedTag - 4);
  for (uint32_t i = 0; i < 8; ++i) {
    group.Cut(AllHot());
    EXPECT_EQ(group.Saved().size(), 1u) << i;
  }
}

TEST(SavedTagTest, CutsAreExactForThousandsOfCuts) {
  MemoryFileSystem files;
  TestGroup group(&files);
  for (uint32_t cut = 1; cut <= kMaxSavedTag + 40; ++cut) {
    group.Insert({cut % 7}, cut);
    CutOptions options = AllCold();
    options.base = cut % 64 == 0;
    const Rows expected = group.rows();
    ASSERT_OK(group.Begin(options));
    // Of rows that the cut needs and others.
    group.Insert({cut % 3}, cut);
    ASSERT_OK(group.Drain());
    group.Commit();
    if (cut % 64 == 63 || cut + 10 > kMaxSavedTag) {
      ASSERT_EQ(group.Restored(), expected) << "cut " << cut;
    }
  }
}

}  // namespace
}  // namespace adaptcp
