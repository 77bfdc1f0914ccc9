// SPDX-License-Identifier: Apache-2.0
// Grouping of keys by stripe, and lists that give up when they get long.

#include "custom_ops/engine/row_tracker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

namespace adaptcp {
namespace {

TEST(RowTrackerTest, EachStripeIsVisitedOnceWithItsKeys) {
  auto tracker = std::make_unique<RowTracker>();
  std::vector<int64_t> keys(5000);
  std::iota(keys.begin(), keys.end(), -100);
  keys.insert(keys.end(), {7, 7, 8});
  std::set<Stripe*> stripes;
  std::vector<int64_t> visited;
  tracker->VisitByStripe(keys.data(), keys.size(),
                         [&](Stripe* stripe, const HashedKey* run, size_t n, bool may_postpone) {
                           EXPECT_TRUE(may_postpone);
                           EXPECT_TRUE(stripes.insert(stripe).second);
                           for (size_t i = 0; i < n; ++i) {
                             const uint64_t hash = HashKey(run[i].key);
                             EXPECT_EQ(run[i].hash, static_cast<uint32_t>(hash));
                             EXPECT_EQ(tracker->stripe_of(hash), stripe);
                             EXPECT_EQ(keys[run[i].index], run[i].key);
                             visited.push_back(run[i].key);
                           }
                           return true;
                         });
  EXPECT_EQ(stripes.size(), RowTracker::kStripes);
  std::sort(visited.begin(), visited.end());
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(visited, keys);
}

TEST(RowTrackerTest, PostponedStripesComeLastAndOnce) {
  auto tracker = std::make_unique<RowTracker>();
  std::vector<int64_t> keys(2000);
  std::iota(keys.begin(), keys.end(), 0);
  std::map<Stripe*, size_t> postponed;
  size_t done = 0;
  bool second_round = false;
  tracker->VisitByStripe(keys.data(), keys.size(),
                         [&](Stripe* stripe, const HashedKey*, size_t n, bool may_postpone) {
                           if (may_postpone) {
                             EXPECT_FALSE(second_round);
                             if (stripe->live == 0 && (done + postponed.size()) % 3 == 0) {
                               postponed[stripe] = n;
                               return false;
                             }
                           } else {
                             second_round = true;
                             EXPECT_EQ(postponed.at(stripe), n);
                             postponed.erase(stripe);
                           }
                           ++done;
                           return true;
                         });
  EXPECT_TRUE(second_round);
  EXPECT_TRUE(postponed.empty());
  EXPECT_EQ(done, RowTracker::kStripes);
}

TEST(RowTrackerTest, NoKeysNoVisit) {
  auto tracker = std::make_unique<RowTracker>();
  tracker->VisitByStripe(nullptr, 0, [](Stripe*, const HashedKey*, size_t, bool) {
    ADD_FAILURE();
    return true;
  });
}

TEST(RowTrackerTest, SizeCountsRowsAndMemory) {
  auto tracker = std::make_unique<RowTracker>();
  const TrackerSize empty = tracker->MeasureSize();
  EXPECT_EQ(empty.rows, 0u);
  EXPECT_EQ(empty.rows_to_save, 0u);
  Stripe* stripe = tracker->stripe(3);
  {
    MutexLock lock(&stripe->mu);
    bool inserted;
    for (int64_t key = 0; key < 1000; ++key) {
      stripe->rows.FindOrInsert(key, HashKey(key), 0, &inserted);
      ++stripe->live;
    }
    for (int64_t key = 0; key < 100; ++key) stripe->dirty.Add(key, stripe->rows.capacity());
  }
  TrackerSize size = tracker->MeasureSize();
  EXPECT_EQ(size.rows, 1000u);
  EXPECT_EQ(size.rows_to_save, 100u);
  EXPECT_GE(size.bytes, empty.bytes + 900 * sizeof(RowEntry) + 100 * sizeof(int64_t));
  {
    MutexLock lock(&stripe->mu);
    stripe->standing.Overflow();
  }
  EXPECT_EQ(tracker->MeasureSize().rows_to_save, 1000u) << "any row may be meant";
  tracker->Clear();
  size = tracker->MeasureSize();
  EXPECT_EQ(size.rows, 0u);
  EXPECT_EQ(size.rows_to_save, 0u);
  EXPECT_EQ(size.bytes, empty.bytes);
}

TEST(KeyListTest, KeepsFewKeysInOrder) {
  KeyList list;
  for (int64_t key : {3, 1, 2}) list.Add(key, 1000);
  EXPECT_FALSE(list.overflowed());
  EXPECT_EQ(list.keys(), (std::vector<int64_t>{3, 1, 2}));
}

TEST(KeyListTest, GivesUpWhenItHoldsMuchOfTheMap) {
  KeyList list;
  constexpr size_t kCapacity = 4000;
  size_t n = 0;
  while (!list.overflowed()) {
    EXPECT_TRUE(KeyList::Fits(n, kCapacity));
    list.Add(static_cast<int64_t>(n++), kCapacity);
  }
  EXPECT_FALSE(KeyList::Fits(n, kCapacity));
  EXPECT_GT(n, kCapacity / 20);
  EXPECT_LT(n, kCapacity / 2);
  EXPECT_EQ(list.bytes(), 0u);
  list.Add(1, kCapacity);
  EXPECT_TRUE(list.overflowed());
}

TEST(KeyListTest, NeverGivesUpInASmallMap) {
  KeyList list;
  for (int64_t key = 0; key < 200; ++key) list.Add(key, 250);
  EXPECT_FALSE(list.overflowed());
  EXPECT_TRUE(KeyList::Fits(200, 250));
}

}  // namespace
}  // namespace adaptcp
