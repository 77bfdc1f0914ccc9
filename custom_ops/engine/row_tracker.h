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
#include "custom_ops/engine/row_map.h"

namespace adaptcp {

// Keys of a stripe's rows that satisfy some condition, each once, for as long as they are few. When
// they are many, visiting the whole map in order is faster than probing it key by key, and the list
// would only take memory: it gives up and is then `overflowed`.
class KeyList {
 public:
  // Adds a key to the list of a map with `capacity` slots.
  void Add(int64_t key, size_t capacity) {
    if (overflowed_) return;
    keys_.push_back(key);
    if (keys_.size() * kSlotsPerKey > capacity && capacity > kSmallCapacity) Overflow();
  }
  void Overflow() {
    overflowed_ = true;
    std::vector<int64_t>().swap(keys_);
  }
  // Whether `n` keys are few enough for a list.
  static bool Fits(size_t n, size_t capacity) {
    return n * kSlotsPerKey <= capacity || capacity <= kSmallCapacity;
  }

  bool overflowed() const { return overflowed_; }
  // Meaningless when overflowed.
  const std::vector<int64_t>& keys() const { return keys_; }
  size_t bytes() const { return keys_.capacity() * sizeof(int64_t); }
  // How many keys there are, of at most `most`.
  size_t CountAtMost(size_t most) const { return overflowed_ ? most : keys_.size(); }

 private:
  static constexpr size_t kSlotsPerKey = 8;
  static constexpr size_t kSmallCapacity = 256;

  std::vector<int64_t> keys_;
  bool overflowed_ = false;
};

// One of the tracker's stripes. Aligned so that two stripes' locks never share a cache line.
struct alignas(64) Stripe {
  Mutex mu;
  RowMap rows TF_GUARDED_BY(mu);
  // Entries of `rows` that are not removed.
  size_t live TF_GUARDED_BY(mu) = 0;
  // Rows first updated in the current interval.
  KeyList dirty TF_GUARDED_BY(mu);
  // Rows whose entry is `listed`: the standing rows, and some that ceased to be.
  KeyList standing TF_GUARDED_BY(mu);
};

struct TrackerSize {
  size_t rows = 0;          // that are not removed
  size_t rows_to_save = 0;  // rows on the lists: a delta saves no more, tombstones aside
  size_t bytes = 0;         // memory of maps and lists
};

// Holds stripes and groups keys by stripe; the protocol lives in TableGroup.
class RowTracker {
 public:
  static constexpr size_t kStripes = 256;

  // Nobody may use the rates meanwhile.
  void SetRateHalfLife(double intervals) { rates_ = RateModel(intervals); }

  Stripe* stripe(size_t i) { return &stripes_[i]; }
  Stripe* stripe_of(uint64_t hash) { return &stripes_[StripeOf(hash)]; }
  const RateModel& rates() const { return rates_; }

  // Calls visit(stripe, keys, n, may_postpone) for each stripe that owns some of the keys. `visit`
  // takes the stripe's mutex itself; it may return false to be called again, after the other
  // stripes, with may_postpone = false.
  template <typename Visit>
  void VisitByStripe(const int64_t* keys, size_t n, Visit visit);

  // Costs one lock a stripe, whatever the number of rows.
  TrackerSize MeasureSize();

  // Forgets everything.
  void Clear();
  // Makes room for so many rows.
  void Reserve(size_t rows);

 private:
  static size_t StripeOf(uint64_t hash) { return hash >> 56; }
  // Sorts keys by stripe into `sorted`; stripe s owns [starts[s], starts[s + 1]).
  static void SortByStripe(const int64_t* keys, size_t n, std::vector<HashedKey>* sorted,
                           std::array<uint32_t, kStripes + 1>* starts);

  RateModel rates_{kRateHalfLifeIntervals};
  std::array<Stripe, kStripes> stripes_;
};

template <typename Visit>
void RowTracker::VisitByStripe(const int64_t* keys, size_t n, Visit visit) {
  static thread_local std::vector<HashedKey> sorted;
  std::array<uint32_t, kStripes + 1> starts;
  SortByStripe(keys, n, &sorted, &starts);
  std::array<uint16_t, kStripes> postponed;
  size_t num_postponed = 0;
  for (size_t s = 0; s < kStripes; ++s) {
    const size_t count = starts[s + 1] - starts[s];
    if (count == 0) continue;
    if (!visit(&stripes_[s], sorted.data() + starts[s], count, /*may_postpone=*/true)) {
      postponed[num_postponed++] = static_cast<uint16_t>(s);
    }
  }
  for (size_t i = 0; i < num_postponed; ++i) {
    const size_t s = postponed[i];
    visit(&stripes_[s], sorted.data() + starts[s], starts[s + 1] - starts[s],
          /*may_postpone=*/false);
  }
}

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_ROW_TRACKER_H_
