// SPDX-License-Identifier: Apache-2.0
// The distribution of update rates: bins, decay, and samples of large groups.

#include "custom_ops/engine/rate_histogram.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "tests/cc/engine/test_group.h"

namespace adaptcp {
namespace {

double Sum(const std::array<double, RateHistogram::kBins>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(RateHistogramTest, BinsAreFourAnOctave) {
  EXPECT_EQ(RateHistogram::BinOf(kRateOne), 0u);
  EXPECT_EQ(RateHistogram::BinOf(kRateOne * 0.51), 3u);
  EXPECT_EQ(RateHistogram::BinOf(kRateOne * 0.49), 4u);
  EXPECT_EQ(RateHistogram::BinOf(kRateOne * 0.24), 8u);
  EXPECT_EQ(RateHistogram::BinOf(1), 63u);
  EXPECT_EQ(RateHistogram::BinOf(0), 63u);
}

class GroupRatesTest : public testing::Test {
 protected:
  GroupRatesTest() : group_(&files_) {}

  MemoryFileSystem files_;
  TestGroup group_;
};

TEST_F(GroupRatesTest, EmptyGroupHasNoRows) { EXPECT_EQ(Sum(group_.group()->Rates().rows), 0.0); }

// Rows 0..9 are updated in each of 40 intervals, rows 10..99 in the first one only.
TEST_F(GroupRatesTest, HotAndColdRowsAreFarApart) {
  Keys hot(10), all(100);
  std::iota(hot.begin(), hot.end(), 0);
  std::iota(all.begin(), all.end(), 0);
  group_.Insert(all, 1);
  group_.Cut(Base());
  for (uint32_t interval = 2; interval <= 40; ++interval) {
    group_.Insert(hot, interval);
    group_.Cut(AllCold());
  }
  const RateHistogram rates = group_.group()->Rates();
  EXPECT_DOUBLE_EQ(Sum(rates.rows), 100.0);
  EXPECT_DOUBLE_EQ(std::accumulate(rates.rows.begin(), rates.rows.begin() + 4, 0.0), 10.0);
  const double hot_rates =
      std::accumulate(rates.rate_sums.begin(), rates.rate_sums.begin() + 4, 0.0);
  EXPECT_GT(hot_rates, 8.0);
  EXPECT_LE(hot_rates, 10.0);
  EXPECT_LT(Sum(rates.rate_sums) - hot_rates, 90 * 0.1);
}

TEST_F(GroupRatesTest, RemovedRowsDoNotCount) {
  group_.Insert({1, 2, 3}, 1);
  group_.Remove({2});
  group_.Cut(Base());
  EXPECT_DOUBLE_EQ(Sum(group_.group()->Rates().rows), 2.0);
}

TEST_F(GroupRatesTest, RatesOfARestoredGroupAreThoseThatWereSaved) {
  group_.Insert({1, 2, 3}, 1);
  group_.Cut(Base());
  group_.Insert({1, 2}, 2);
  group_.Cut(AllCold());
  TestGroup restored(&files_);
  ASSERT_OK(restored.RestoreFrom(group_.chain()));
  EXPECT_EQ(restored.group()->Rates().rows, group_.group()->Rates().rows);
}

TEST_F(GroupRatesTest, HalfLifeIsThatOfTheLatestCut) {
  CutOptions options = AllCold();
  for (const double half_life : {1.0, 50.0}) {
    options.rate_half_life_intervals = half_life;
    options.base = true;
    group_.Insert({1}, 1);
    for (int i = 0; i < 8; ++i) {
      group_.Cut(options);
      options.base = false;
    }
    const double rate = Sum(group_.group()->Rates().rate_sums);
    EXPECT_EQ(rate < 0.01, half_life < 2) << rate;
  }
}

// 40,000 rows of which a sample of 2,000 is counted, a quarter with another rate.
TEST(MeasureRatesTest, SampleStandsForAll) {
  auto tracker = std::make_unique<RowTracker>();
  for (int64_t key = 0; key < 40000; ++key) {
    bool inserted;
    Stripe* stripe = tracker->stripe_of(HashKey(key));
    MutexLock lock(&stripe->mu);
    RowEntry* row = stripe->rows.FindOrInsert(key, HashKey(key), 0, &inserted);
    row->last_updated = 7;
    row->history = kMaxHistory;
    row->rate = key % 4 == 0 ? kRateOne : kRateOne / 8;
    ++stripe->live;
  }
  const RateHistogram all = MeasureRates(tracker.get(), tracker->rates(), 7, 1 << 20, 0);
  EXPECT_DOUBLE_EQ(all.rows[0], 10000);
  EXPECT_DOUBLE_EQ(Sum(all.rows), 40000);
  for (size_t first : {size_t{0}, size_t{200}}) {
    const RateHistogram sample = MeasureRates(tracker.get(), tracker->rates(), 7, 2000, first);
    EXPECT_NEAR(Sum(sample.rows), 40000, 1e-6);
    EXPECT_NEAR(sample.rows[0], 10000, 1500);
    EXPECT_NE(sample.rows[0], 10000);
  }
}

}  // namespace
}  // namespace adaptcp
