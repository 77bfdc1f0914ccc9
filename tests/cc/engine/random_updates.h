// SPDX-License-Identifier: Apache-2.0
// Random updates of table groups, next to plain maps that say what the tables must hold.

#ifndef ADAPTCP_TESTS_CC_ENGINE_RANDOM_UPDATES_H_
#define ADAPTCP_TESTS_CC_ENGINE_RANDOM_UPDATES_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/cc/engine/test_group.h"

namespace adaptcp {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  uint32_t Below(uint32_t n) { return engine_() % n; }
  uint32_t Between(uint32_t low, uint32_t high) { return low + Below(high - low + 1); }
  bool Percent(uint32_t p) { return Below(100) < p; }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[Below(static_cast<uint32_t>(values.size()))];
  }

 private:
  std::mt19937 engine_;
};

// The rows of a cut as the oracle knows them.
struct Snapshot {
  Rows rows;
  // Per key and table, further versions that an accumulate in flight at the cut makes as good.
  std::map<std::pair<int64_t, size_t>, std::set<uint32_t>> others;

  void ExpectEq(const Rows& restored) const {
    for (const auto& [key, row] : restored) ExpectRow(key, row);
    for (const auto& [key, row] : rows) {
      if (restored.count(key) == 0) ExpectRow(key, Row(row.size(), kAbsent));
    }
  }

 private:
  void ExpectRow(int64_t key, const Row& found) const {
    const auto expected = rows.find(key);
    for (size_t t = 0; t < found.size(); ++t) {
      const uint32_t version = expected == rows.end() ? kAbsent : expected->second[t];
      if (found[t] == version) continue;
      const auto other = others.find({key, t});
      EXPECT_TRUE(other != others.end() && other->second.count(found[t]) > 0)
          << "key " << key << " table " << t << ": expected version " << version << ", restored "
          << found[t];
    }
  }
};

struct UpdateMix {
  uint32_t keys = 100;      // key space, at most 2000
  bool one_stripe = false;  // all keys in one stripe of the tracker
  uint32_t max_batch = 20;  // keys an update
  bool slots_apart = true;  // parameter and slots in updates of their own, in any order
  bool accumulates = true;  // marked, changed and marked again, with other steps in between
  bool one_by_one = false;  // like one optimizer: an update reaches all tables before the next
};

// Does the same updates to all its groups, which must hold the same rows at the start.
class RandomUpdates {
 public:
  RandomUpdates(uint32_t seed, size_t tables, const UpdateMix& mix, std::vector<TestGroup*> groups)
      : random_(seed), tables_(tables), mix_(mix), groups_(std::move(groups)) {}

  // One step of one update: begins a new one or goes on with one that was begun.
  void Step() {
    if (random_.Percent(10)) {
      // Rightly or wrongly.
      const Keys keys = RandomKeys();
      for (TestGroup* group : groups_) group->group()->WillUpdate(group->Batch(keys));
    }
    if (begun_.empty() || (!mix_.one_by_one && begun_.size() < 6 && random_.Percent(40))) {
      BeginUpdate();
    } else {
      GoOn(random_.Below(static_cast<uint32_t>(begun_.size())));
    }
  }
  void FinishAll() {
    while (!begun_.empty()) GoOn(begun_.size() - 1);
  }
  // Clears the tables and gives them a few rows, as an import does.
  void Replace() {
    FinishAll();
    Keys keys = RandomKeys();
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    ++version_;
    for (TestGroup* group : groups_) group->Replace(keys, version_);
    rows_.clear();
    for (int64_t key : keys) rows_[key] = Row(tables_, version_);
  }

  // Goes on with other groups, which hold `rows`: training was killed and restored.
  void Resume(std::vector<TestGroup*> groups, const Rows& rows) {
    groups_ = std::move(groups);
    rows_ = rows;
    begun_.clear();
  }

  // What Begin, called now, must preserve.
  Snapshot TakeSnapshot() {
    ++cuts_;
    Snapshot snapshot;
    snapshot.rows = rows_;
    for (const Begun& begun : begun_) {
      if (begun.kind != kAccumulate || begun.stage == 0) continue;
      // Changed and marked in the interval of the cut: the change is in it for sure.
      if (begun.stage == 2 && begun.marked_at == cuts_ - 1) continue;
      for (int64_t key : begun.keys) {
        auto& others = snapshot.others[{key, begun.table}];
        others.insert(begun.version);
        const auto before = begun.before.find(key);
        if (before != begun.before.end()) others.insert(before->second);
      }
    }
    return snapshot;
  }
  const Rows& rows() const { return rows_; }

  // Such as updates have.
  Keys RandomKeys() {
    Keys keys;
    const uint32_t n = random_.Between(1, mix_.max_batch);
    // Half of the batches come from few keys, so that some rows are hot.
    const uint32_t range = random_.Percent(50) ? mix_.keys : (mix_.keys + 9) / 10;
    while (keys.size() < n) {
      const uint32_t i = random_.Below(range);
      keys.push_back(mix_.one_stripe ? OneStripeKey(i) : i);
    }
    return keys;
  }

 private:
  enum Kind { kInsert, kRemove, kAccumulate };

  // An update of one table that is not finished.
  struct Begun {
    Kind kind;
    size_t table;
    Keys keys;
    std::vector<KeyBatch> batches;  // one per group
    uint32_t version;
    // Of an accumulate: 0 at the start, 1 marked, 2 changed.
    int stage = 0;
    int marked_at = 0;
    std::map<int64_t, uint32_t> before;
  };

  std::vector<KeyBatch> Batches(const Keys& keys) {
    std::vector<KeyBatch> batches;
    for (TestGroup* group : groups_) batches.push_back(group->Batch(keys));
    return batches;
  }

  void BeginUpdate() {
    const uint32_t dice = random_.Below(100);
    const Kind kind = dice < (mix_.one_by_one ? 95 : 60) ? kInsert
                      : dice < 80 || !mix_.accumulates   ? kRemove
                                                         : kAccumulate;
    const Keys keys = RandomKeys();
    ++version_;
    if (kind == kAccumulate) {
      begun_.push_back({kind,
                        random_.Below(static_cast<uint32_t>(tables_)),
                        keys,
                        Batches(keys),
                        version_,
                        0,
                        0,
                        {}});
    } else if (mix_.slots_apart && random_.Percent(80)) {
      BeginTableByTable(kind, keys);
    } else {
      UpdateAllTables(kind, keys);
    }
  }

  // Like an optimizer, mostly with one key tensor for all tables; sometimes a table is left out.
  void BeginTableByTable(Kind kind, const Keys& keys) {
    const std::vector<KeyBatch> shared = Batches(keys);
    for (size_t t = 0; t < tables_; ++t) {
      if (random_.Percent(mix_.one_by_one ? 1 : 10)) continue;
      begun_.push_back(
          {kind, t, keys, random_.Percent(70) ? shared : Batches(keys), version_, 0, 0, {}});
    }
  }

  void UpdateAllTables(Kind kind, const Keys& keys) {
    const uint32_t version = version_;
    for (TestGroup* group : groups_) {
      EXPECT_OK(group->Update(keys, [&] {
        return kind == kInsert ? group->WriteAll(keys, version) : group->EraseAll(keys);
      }));
    }
    for (size_t t = 0; t < tables_; ++t) Expect(kind, t, keys, version);
  }

  void GoOn(size_t i) {
    Begun* begun = &begun_[i];
    if (begun->kind == kAccumulate && begun->stage < 2) {
      begun->stage == 0 ? MarkFirst(begun) : Change(begun);
      return;
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      TestGroup* group = groups_[g];
      if (begun->kind == kAccumulate) {
        EXPECT_OK(group->group()->MarkUpdated(begun->batches[g]));
        continue;
      }
      if (begun->kind == kInsert) {
        EXPECT_OK(
            group->LoggedInsert(begun->table, begun->batches[g], begun->keys, begun->version));
        continue;
      }
      EXPECT_OK(group->group()->Update(begun->batches[g],
                                       [&] { return group->Erase(begun->table, begun->keys); }));
    }
    if (begun->kind != kAccumulate) {
      Expect(begun->kind, begun->table, begun->keys, begun->version);
    }
    begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void MarkFirst(Begun* begun) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      EXPECT_OK(groups_[g]->group()->MarkUpdated(begun->batches[g]));
    }
    begun->stage = 1;
    begun->marked_at = cuts_;
  }

  void Change(Begun* begun) {
    for (TestGroup* group : groups_) {
      group->Accumulate(begun->table, begun->keys, begun->version);
    }
    for (int64_t key : begun->keys) {
      const auto row = rows_.find(key);
      begun->before[key] = row == rows_.end() ? kAbsent : row->second[begun->table];
    }
    Expect(kInsert, begun->table, begun->keys, begun->version);
    begun->stage = 2;
  }

  void Expect(Kind kind, size_t table, const Keys& keys, uint32_t version) {
    for (int64_t key : keys) {
      const auto row = rows_.try_emplace(key, tables_, kAbsent).first;
      row->second[table] = kind == kRemove ? kAbsent : version;
      if (row->second == Row(tables_, kAbsent)) rows_.erase(row);
    }
  }

  Random random_;
  const size_t tables_;
  const UpdateMix mix_;
  std::vector<TestGroup*> groups_;
  std::vector<Begun> begun_;
  Rows rows_;
  uint32_t version_ = 0;
  int cuts_ = 0;
};

}  // namespace adaptcp

#endif  // ADAPTCP_TESTS_CC_ENGINE_RANDOM_UPDATES_H_
