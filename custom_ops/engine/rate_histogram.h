// SPDX-License-Identifier: Apache-2.0
// How the update rates of a group's rows are distributed, for policies.

#ifndef ADAPTCP_ENGINE_RATE_HISTOGRAM_H_
#define ADAPTCP_ENGINE_RATE_HISTOGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "custom_ops/engine/row_tracker.h"

namespace adaptcp {

// Bins are logarithmic, four an octave from rate 1 down, since the rates of real rows span all
// magnitudes that an entry can hold. The last bin takes whatever is smaller.
struct RateHistogram {
  static constexpr size_t kBins = 64;

  std::array<double, kBins> rows = {};
  std::array<double, kBins> rate_sums = {};  // updates per interval, added up over the bin's rows

  // The bin of a rate from 0 to kRateOne.
  static size_t BinOf(double rate);
};

// Counts the rows of `tracker` that are not removed, by their rate at the end of `interval`. Beyond
// about `sample_rows` rows, whole stripes are left out and the others counted for them: a stripe is
// a random sample, since keys are assigned to stripes by hash. `first_stripe` tells where to start.
// Takes one stripe's mutex after the other.
RateHistogram MeasureRates(RowTracker* tracker, const RateModel& rates, uint32_t interval,
                           size_t sample_rows, size_t first_stripe);

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_RATE_HISTOGRAM_H_
