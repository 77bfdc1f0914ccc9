// SPDX-License-Identifier: Apache-2.0
// Samples stripes and bins the rates of their rows.

#include "custom_ops/engine/rate_histogram.h"

#include <algorithm>
#include <cmath>

namespace adaptcp {
namespace {

constexpr double kBinsPerOctave = 4;

// Adds a stripe's rows; returns how many they are.
size_t AddStripe(const RateModel& rates, uint32_t interval, Stripe* stripe,
                 RateHistogram* histogram) {
  MutexLock lock(&stripe->mu);
  for (size_t i = 0; i < stripe->rows.capacity(); ++i) {
    const RowEntry& row = *stripe->rows.slot(i);
    if (!row.occupied || row.removed) continue;
    // A row of the interval that is open already counts as one of the interval before.
    const uint32_t updated = std::min(interval, static_cast<uint32_t>(row.last_updated));
    const double rate = rates.Decayed(row, interval - updated);
    const size_t bin = RateHistogram::BinOf(rate);
    histogram->rows[bin] += 1;
    histogram->rate_sums[bin] += rate / kRateOne;
  }
  return stripe->live;
}

}  // namespace

size_t RateHistogram::BinOf(double rate) {
  if (rate < 1) return kBins - 1;
  const double octaves = std::log2(kRateOne / std::min<double>(rate, kRateOne));
  return std::min(kBins - 1, static_cast<size_t>(octaves * kBinsPerOctave));
}

RateHistogram MeasureRates(RowTracker* tracker, const RateModel& rates, uint32_t interval,
                           size_t sample_rows, size_t first_stripe) {
  const size_t rows = tracker->MeasureSize().rows;
  RateHistogram histogram;
  size_t sampled = 0;
  for (size_t s = 0; s < RowTracker::kStripes && sampled <= sample_rows; ++s) {
    Stripe* stripe = tracker->stripe((first_stripe + s) % RowTracker::kStripes);
    sampled += AddStripe(rates, interval, stripe, &histogram);
  }
  const double scale = sampled == 0 ? 0 : static_cast<double>(rows) / static_cast<double>(sampled);
  for (size_t bin = 0; bin < RateHistogram::kBins; ++bin) {
    histogram.rows[bin] *= scale;
    histogram.rate_sums[bin] *= scale;
  }
  return histogram;
}

}  // namespace adaptcp
