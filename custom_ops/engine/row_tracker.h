// SPDX-License-Identifier: Apache-2.0
// The striped set of tracked rows: which rows exist, when each was last updated, and the lists that
// make a cut's work enumerable without walking the rows.

#ifndef ADAPTCP_ENGINE_ROW_TRACKER_H_
#define ADAPTCP_ENGINE_ROW_TRACKER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/base/status.h"
#include "custom_ops/engine/row_map.h"

namespace adaptcp {

struct HashedKey {
  int64_t key;
  uint64_t hash;
};

// One of the tracker's stripes. Aligned so that two stripes' locks never share a cache line.
struct alignas(64) Stripe {
  Mutex mu;
  RowMap rows TF_GUARDED_BY(mu);
  // Entries of `rows` that are not removed.
  size_t live TF_GUARDED_BY(mu) = 0;
  // Keys first updated in the current interval, each once.
  std::vector<int64_t> dirty TF_GUARDED_BY(mu);
  // Keys whose entry is `listed`, each once: the standing rows, and some that ceased to be.
  std::vector<int64_t> standing TF_GUARDED_BY(mu);
};

// Holds stripes and groups keys by stripe; the protocol lives in TableGroup.
class RowTracker {
 public:
  static constexpr size_t kStripes = 256;

  explicit RowTracker(double rate_half_life_intervals) : rates_(rate_half_life_intervals) {}

  Stripe* stripe(size_t i) { return &stripes_[i]; }
  Stripe* stripe_of(uint64_t hash) { return &stripes_[StripeOf(hash)]; }
  const RateModel& rates() const { return rates_; }

  // Calls visit(stripe, keys, n) once for each stripe that owns some of the keys, in ascending order.
  // `visit` takes the stripe's mutex itself. Stops at the first error and returns it.
  template <typename Visit>
  Status VisitByStripe(const int64_t* keys, size_t n, Visit visit);

  // Number of rows that are not removed, and memory of maps and lists in bytes. Costs one lock a
  // stripe, whatever the number of rows.
  void MeasureSize(size_t* rows, size_t* bytes);

  // Forgets everything.
  void Clear();

 private:
  static size_t StripeOf(uint64_t hash) { return hash >> 56; }
  // Sorts keys by stripe into `sorted`; stripe s owns [starts[s], starts[s + 1]).
  static void SortByStripe(const int64_t* keys, size_t n, std::vector<HashedKey>* sorted,
                           std::array<uint32_t, kStripes + 1>* starts);

  const RateModel rates_;
  std::array<Stripe, kStripes> stripes_;
};

template <typename Visit>
Status RowTracker::VisitByStripe(const int64_t* keys, size_t n, Visit visit) {
  static thread_local std::vector<HashedKey> sorted;
  std::array<uint32_t, kStripes + 1> starts;
  SortByStripe(keys, n, &sorted, &starts);
  for (size_t s = 0; s < kStripes; ++s) {
    const size_t count = starts[s + 1] - starts[s];
    if (count == 0) continue;
    ADAPTCP_RETURN_IF_ERROR(visit(&stripes_[s], sorted.data() + starts[s], count));
  }
  return Status::OK();
}

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_ROW_TRACKER_H_
