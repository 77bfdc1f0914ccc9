// SPDX-License-Identifier: Apache-2.0
// Updates that can be told afterwards from their number alone, for tests whose cuts fall anywhere
// between the updates of several threads.

#ifndef ADAPTCP_TESTS_CC_ENGINE_SCRIPTED_UPDATES_H_
#define ADAPTCP_TESTS_CC_ENGINE_SCRIPTED_UPDATES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/cc/engine/random_updates.h"

namespace adaptcp {

// A cycle of updates of the same tables. Update number n gives version n to some rows and removes
// others, among the one-stripe keys from number `first_key` on. The row of the first one counts:
// each update gives it its number, so that a restored table tells which updates it is made of.
class ScriptedUpdates {
 public:
  // Of every hundred rows, `removed` are removed rather than inserted.
  ScriptedUpdates(uint32_t seed, TestGroup* group, uint32_t first_key, uint32_t num_keys,
                  std::vector<size_t> tables, uint32_t removed = 15)
      : group_(group), first_key_(OneStripeKey(first_key)), tables_(std::move(tables)) {
    Random random(seed);
    for (int i = 0; i < 64; ++i) {
      Update update;
      update.inserted = {first_key_};
      const uint32_t hot_keys = random.Percent(50) ? num_keys : (num_keys + 9) / 10;
      for (uint32_t n = random.Between(1, 30); n > 0; --n) {
        Keys* keys = random.Percent(removed) ? &update.removed : &update.inserted;
        keys->push_back(OneStripeKey(first_key + 1 + random.Below(hot_keys)));
      }
      Keys all = update.inserted;
      all.insert(all.end(), update.removed.begin(), update.removed.end());
      update.batch = group->Batch(all);
      updates_.push_back(update);
    }
  }

  const KeyBatch& batch(uint32_t n) const { return updates_[n % updates_.size()].batch; }

  // Changes the tables as update `n` does, with `version` in place of n.
  Status Apply(uint32_t n, uint32_t version) const {
    const Update& update = updates_[n % updates_.size()];
    Status status;
    for (size_t table : tables_) {
      status.Update(group_->Write(table, update.inserted, version));
      status.Update(group_->Erase(table, update.removed));
    }
    return status;
  }

  // Makes update `n`, which removes nothing, of the only table, so that the group may log it.
  Status Insert(uint32_t n) const {
    const Update& update = updates_[n % updates_.size()];
    return group_->LoggedInsert(tables_[0], update.batch, update.inserted, n);
  }

  // Does the same to plain rows of as many tables as the group has.
  void ApplyTo(uint32_t n, uint32_t version, size_t num_tables, Rows* rows) const {
    const Update& update = updates_[n % updates_.size()];
    for (size_t table : tables_) {
      for (int64_t key : update.inserted) {
        rows->try_emplace(key, num_tables, kAbsent).first->second[table] = version;
      }
      for (int64_t key : update.removed) {
        const auto row = rows->find(key);
        if (row == rows->end()) continue;
        row->second[table] = kAbsent;
        if (row->second == Row(num_tables, kAbsent)) rows->erase(row);
      }
    }
  }

  // The number that the rows of a table say they are of; 0 before the first update.
  uint32_t NumberIn(const Rows& rows) const {
    const auto row = rows.find(first_key_);
    return row == rows.end() ? 0 : row->second[tables_[0]];
  }

 private:
  struct Update {
    Keys inserted;
    Keys removed;
    KeyBatch batch;
  };

  TestGroup* const group_;
  const int64_t first_key_;
  const std::vector<size_t> tables_;
  std::vector<Update> updates_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_TESTS_CC_ENGINE_SCRIPTED_UPDATES_H_
