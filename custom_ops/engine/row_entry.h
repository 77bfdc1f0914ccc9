// SPDX-License-Identifier: Apache-2.0
// What the tracker remembers of one row, packed into 16 bytes, and the estimate of its update rate.

#ifndef ADAPTCP_ENGINE_ROW_ENTRY_H_
#define ADAPTCP_ENGINE_ROW_ENTRY_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace adaptcp {

// Highest interval number an entry can hold: a checkpoint every 50 ms for 38 days.
constexpr uint32_t kMaxInterval = (1u << 26) - 1;
// Cuts are told apart by tags 1..kMaxSavedTag; tag 0 means "not saved by a cut that still matters".
constexpr uint32_t kMaxSavedTag = (1u << 12) - 1;
constexpr uint32_t kMaxHistory = (1u << 5) - 1;
constexpr uint32_t kRateOne = 65535;
// Of update rates, unless a cut says otherwise: long enough to average, short enough to follow.
constexpr double kRateHalfLifeIntervals = 16;

struct RowEntry {
  int64_t key;
  uint64_t occupied : 1;
  uint64_t hot : 1;       // class at the last save
  uint64_t standing : 1;  // hot and updated since the base: every differential holds it
  uint64_t listed : 1;    // physically on its stripe's standing list
  uint64_t removed : 1;   // a cut found the key in no table
  uint64_t history : 5;   // intervals the rate was averaged over, saturating
  uint64_t rate : 16;     // updates per interval, as a fraction of kRateOne, at last_updated
  uint64_t saved : 12;    // tag of the cut this row was last saved for
  uint64_t last_updated : 26;
};
static_assert(sizeof(RowEntry) == 16, "the memory figure of the tracker depends on it");

// Update probability per interval: an average over a young row's life, started from four imagined
// intervals without update, that turns into an exponentially weighted mean. Decay is lazy: it is
// computed from interval numbers when a rate is read, so silent rows cost nothing.
class RateModel {
 public:
  explicit RateModel(double half_life_intervals)
      : half_life_intervals_(half_life_intervals),
        decay_(std::exp2(-1.0 / half_life_intervals)),
        window_(static_cast<uint32_t>(
            std::fmin(kMaxHistory, std::fmax(kPriorHistory + 1, 1.0 / (1.0 - decay_))))) {
    powers_.resize(512);
    for (size_t i = 0; i < powers_.size(); ++i) powers_[i] = std::pow(decay_, i);
    for (uint32_t i = 1; i <= window_; ++i) weights_[i] = 1.0 / i;
  }

  static constexpr uint32_t kPriorHistory = 4;

  double half_life_intervals() const { return half_life_intervals_; }

  static void Reset(RowEntry* row) {
    row->rate = 0;
    row->history = kPriorHistory;
  }

  // Counts an update; `gap`, at least 1, is the number of intervals since the last one.
  void Touch(RowEntry* row, uint32_t gap) const {
    const uint32_t history = static_cast<uint32_t>(row->history) + gap;
    const double weight = history <= window_ ? weights_[history] : 1.0 - decay_;
    const double rate = Decayed(*row, gap - 1) * (1.0 - weight) + kRateOne * weight;
    row->rate = static_cast<uint32_t>(rate + 0.5);
    row->history = history < kMaxHistory ? history : kMaxHistory;
  }

  // The rate, 0..kRateOne, as it stands `gap` silent intervals after the last update.
  double Decayed(const RowEntry& row, uint32_t gap) const {
    if (gap == 0) return row.rate;
    const uint32_t history = static_cast<uint32_t>(row.history);
    if (history >= window_) return row.rate * Power(gap);
    // Averaged until the window is full, decayed from then on.
    const uint32_t averaged = std::min(gap, window_ - history);
    return row.rate * static_cast<double>(history) / (history + averaged) * Power(gap - averaged);
  }

 private:
  double Power(uint32_t gap) const {
    return gap < powers_.size() ? powers_[gap] : std::pow(decay_, gap);
  }

  double half_life_intervals_;
  double decay_;
  uint32_t window_;
  std::vector<double> powers_;
  // A division an update would be a third of the tracker's time.
  std::array<double, kMaxHistory + 1> weights_ = {};
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_ROW_ENTRY_H_
