// SPDX-License-Identifier: Apache-2.0
// Grouping of keys by stripe, and the tracker's size.

#include "custom_ops/engine/row_tracker.h"

namespace adaptcp {

void RowTracker::SortByStripe(const int64_t* keys, size_t n, std::vector<HashedKey>* sorted,
                              std::array<uint32_t, kStripes + 1>* starts) {
  starts->fill(0);
  // Hashing twice is cheaper than writing the hashes out and reading them back.
  for (size_t i = 0; i < n; ++i) ++(*starts)[StripeOf(HashKey(keys[i])) + 1];
  for (size_t s = 0; s < kStripes; ++s) (*starts)[s + 1] += (*starts)[s];
  if (sorted->size() < n) sorted->resize(n);
  std::array<uint32_t, kStripes> next;
  std::copy(starts->begin(), starts->end() - 1, next.begin());
  for (size_t i = 0; i < n; ++i) {
    const uint64_t hash = HashKey(keys[i]);
    (*sorted)[next[StripeOf(hash)]++] = {keys[i], static_cast<uint32_t>(hash),
                                         static_cast<uint32_t>(i)};
  }
}

TrackerSize RowTracker::MeasureSize() {
  TrackerSize size;
  size.bytes = sizeof(*this);
  for (Stripe& stripe : stripes_) {
    MutexLock lock(&stripe.mu);
    size.bytes +=
        stripe.rows.capacity() * sizeof(RowEntry) + stripe.dirty.bytes() + stripe.standing.bytes();
    size.rows += stripe.live;
    const size_t listed =
        stripe.dirty.CountAtMost(stripe.live) + stripe.standing.CountAtMost(stripe.live);
    size.rows_to_save += std::min(stripe.live, listed);
  }
  return size;
}

void RowTracker::Clear() {
  for (Stripe& stripe : stripes_) {
    MutexLock lock(&stripe.mu);
    stripe.rows = RowMap();
    stripe.live = 0;
    stripe.dirty = KeyList();
    stripe.standing = KeyList();
  }
}

void RowTracker::Reserve(size_t rows) {
  for (Stripe& stripe : stripes_) {
    MutexLock lock(&stripe.mu);
    stripe.rows.Reserve(rows / kStripes);
  }
}

}  // namespace adaptcp
