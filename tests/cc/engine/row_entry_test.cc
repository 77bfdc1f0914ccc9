// SPDX-License-Identifier: Apache-2.0
// The estimate of update rates, against a plain calculation interval by interval.

#include "custom_ops/engine/row_entry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <tuple>

namespace adaptcp {
namespace {

// What RateModel computes lazily: each interval weighs a history-th until the window is full, from
// then on as much as its half-life says.
class PlainRate {
 public:
  explicit PlainRate(double half_life)
      : decay_(std::exp2(-1 / half_life)),
        window_(std::floor(std::fmin(kMaxHistory, std::fmax(5, 1 / (1 - decay_))))) {}

  void Interval(bool updated) {
    history_ += 1;
    const double weight = history_ <= window_ ? 1 / history_ : 1 - decay_;
    rate_ = rate_ * (1 - weight) + (updated ? weight : 0);
  }
  double rate() const { return rate_; }

 private:
  const double decay_;
  const double window_;
  double history_ = RateModel::kPriorHistory;
  double rate_ = 0;
};

double Rate(const RateModel& model, const RowEntry& row, uint32_t gap = 0) {
  return model.Decayed(row, gap) / kRateOne;
}

RowEntry NewRow(const RateModel& model) {
  RowEntry row{};
  RateModel::Reset(&row);
  model.Touch(&row, 1);
  return row;
}

// Probability of an update per interval, half-life.
class PlainRateTest : public testing::TestWithParam<std::tuple<double, double>> {};

TEST_P(PlainRateTest, RateModelAgrees) {
  const auto [probability, half_life] = GetParam();
  const RateModel model(half_life);
  std::mt19937 random(1);
  std::bernoulli_distribution updated(probability);
  for (int run = 0; run < 50; ++run) {
    PlainRate plain(half_life);
    plain.Interval(true);
    RowEntry row = NewRow(model);
    uint32_t gap = 0;
    for (int interval = 0; interval < 200; ++interval) {
      const bool update = updated(random);
      plain.Interval(update);
      ++gap;
      if (update) {
        model.Touch(&row, gap);
        gap = 0;
      }
      ASSERT_NEAR(Rate(model, row, gap), plain.rate(), 1e-3) << "interval " << interval;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rates, PlainRateTest,
                         testing::Combine(testing::Values(0.01, 0.1, 0.5, 0.9, 1.0),
                                          testing::Values(1.0, 4.0, 16.0, 100.0)));

TEST(RateModelTest, NewRowIsTakenForOneUpdateInFive) {
  const RateModel model(16);
  EXPECT_NEAR(Rate(model, NewRow(model)), 0.2, 1e-4);
}

TEST(RateModelTest, RowUpdatedInEveryIntervalApproachesOne) {
  for (double half_life : {1.0, 16.0, 1000.0}) {
    const RateModel model(half_life);
    RowEntry row = NewRow(model);
    double before = 0;
    for (int i = 0; i < 30000; ++i) {
      model.Touch(&row, 1);
      ASSERT_GE(row.rate, before);
      before = row.rate;
    }
    EXPECT_GT(Rate(model, row), 0.98) << half_life;
    EXPECT_LE(row.rate, kRateOne);
  }
}

TEST(RateModelTest, SilenceHalvesTheRateOfAnOldRowEachHalfLife) {
  const RateModel model(16);
  RowEntry row = NewRow(model);
  for (int i = 0; i < 500; ++i) model.Touch(&row, 1);
  const double rate = Rate(model, row);
  EXPECT_NEAR(Rate(model, row, 16), rate / 2, 1e-3);
  EXPECT_NEAR(Rate(model, row, 160), rate / 1024, 1e-3);
  // Beyond the table of powers.
  EXPECT_NEAR(Rate(model, row, 16000), 0, 1e-9);
  EXPECT_EQ(Rate(model, row, kMaxInterval), 0);
}

TEST(RateModelTest, SilenceNeverRaisesTheRate) {
  for (double half_life : {1.0, 16.0, 1000.0}) {
    const RateModel model(half_life);
    RowEntry row = NewRow(model);
    for (int updates = 0; updates < 40; ++updates) {
      for (uint32_t gap = 1; gap < 700; ++gap) {
        ASSERT_LT(model.Decayed(row, gap), model.Decayed(row, gap - 1)) << half_life << " " << gap;
      }
      model.Touch(&row, 1);
    }
  }
}

TEST(RateModelTest, LongGapsDoNotOverflowTheHistory) {
  const RateModel model(16);
  RowEntry row = NewRow(model);
  for (uint32_t gap : {1u, 30u, 600u, kMaxInterval, 2u, 1u}) {
    model.Touch(&row, gap);
    EXPECT_LE(row.history, kMaxHistory);
    EXPECT_GE(row.history, RateModel::kPriorHistory);
    EXPECT_LE(row.rate, kRateOne);
  }
}

TEST(RateModelTest, RatesOrderRowsByTheirFrequency) {
  const RateModel model(16);
  double before = 1;
  for (uint32_t gap : {1, 2, 3, 5, 10, 30}) {
    RowEntry row = NewRow(model);
    for (uint32_t interval = 0; interval < 300; interval += gap) model.Touch(&row, gap);
    // In the middle of a gap the estimate is near the truth.
    EXPECT_NEAR(Rate(model, row, gap / 2), 1.0 / gap, 0.25 / gap + 0.01) << gap;
    EXPECT_LT(Rate(model, row, gap / 2), before);
    before = Rate(model, row, gap / 2);
  }
}

}  // namespace
}  // namespace adaptcp
