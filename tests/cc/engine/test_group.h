// SPDX-License-Identifier: Apache-2.0
// A small language for tests of table groups: update rows, cut, commit, restore, compare.

#ifndef ADAPTCP_TESTS_CC_ENGINE_TEST_GROUP_H_
#define ADAPTCP_TESTS_CC_ENGINE_TEST_GROUP_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "custom_ops/engine/restorer.h"
#include "custom_ops/engine/table_group.h"
#include "custom_ops/testing/memory_file_system.h"
#include "custom_ops/testing/memory_table.h"
#include "tests/cc/engine/chain.h"

namespace adaptcp {

using Keys = std::vector<int64_t>;

// The n-th of those keys that share a stripe of the tracker with key 0. A stripe's lists of keys
// give way to walks once it has many rows.
inline int64_t OneStripeKey(uint32_t n) {
  static const Keys* const keys = [] {
    auto* keys = new Keys;
    for (int64_t key = 0; keys->size() < 2000; ++key) {
      if (HashKey(key) >> 56 == HashKey(0) >> 56) keys->push_back(key);
    }
    return keys;
  }();
  return (*keys)[n];
}

inline CutOptions Base() {
  CutOptions options;
  options.base = true;
  return options;
}
inline CutOptions Threshold(double hot_threshold, double hysteresis = 0) {
  CutOptions options;
  options.hot_threshold = hot_threshold;
  options.hysteresis = hysteresis;
  return options;
}
inline CutOptions AllCold() { return Threshold(2); }
inline CutOptions AllHot() { return Threshold(0); }

struct TestGroupOptions {
  size_t tables = 2;
  uint32_t dim = 4;  // of the first table; each next one has one float more
  size_t max_writers = 1;
  BlockBudget* budget = BlockBudget::Process();
  UpdateLogBudget* log_budget = UpdateLogBudget::Process();
  TableGroupOptions group;
};

// A table group over tables in memory. Updates are safe on several threads, and while one thread
// drains; the rest is for one thread.
class TestGroup {
 public:
  explicit TestGroup(MemoryFileSystem* files, const TestGroupOptions& options = {})
      : files_(files),
        options_(options),
        group_(WithName(options.group), options.budget, options.log_budget) {
    for (size_t t = 0; t < options.tables; ++t) {
      const uint32_t dim = options.dim + static_cast<uint32_t>(t);
      auto table = std::make_unique<MemoryTable>(MakeTable(Concat("table-", t), "float32", dim));
      tables_.push_back(table.get());
      EXPECT_OK(group_.Attach(t, table.get(), std::move(table)));
    }
    chain_.shard = options.group.shard;
    chain_.num_shards = options.group.num_shards;
  }

  // --- Updates ---

  // Gives the rows this version in all tables, or in one, by one update.
  void Insert(const Keys& keys, uint32_t version) {
    EXPECT_OK(Update(keys, [&] { return WriteAll(keys, version); }));
  }
  void InsertInto(size_t table, const Keys& keys, uint32_t version) {
    EXPECT_OK(Update(keys, [&] { return Write(table, keys, version); }));
  }
  // Into one table, by an update that the group may log.
  Status LoggedInsert(size_t table, const KeyBatch& batch, const Keys& keys, uint32_t version) {
    auto values = std::make_shared<const std::string>(Values(table, keys, version));
    return group_.Insert(batch, table, RowValues{values->data(), values->size(), values},
                         [&] { return Write(table, keys, version); });
  }
  void Remove(const Keys& keys) {
    EXPECT_OK(Update(keys, [&] { return EraseAll(keys); }));
  }
  void RemoveFrom(size_t table, const Keys& keys) {
    EXPECT_OK(Update(keys, [&] { return Erase(table, keys); }));
  }
  // Clears all tables and gives them these rows.
  void Replace(const Keys& keys, uint32_t version) {
    group_.BeforeReplace();
    ClearTables();
    EXPECT_OK(WriteAll(keys, version));
    const Keys ids = Ids(keys);
    EXPECT_OK(group_.AfterReplace(ids.data(), ids.size()));
  }
  Status Update(const Keys& keys, const std::function<Status()>& apply) {
    return group_.Update(Batch(keys), apply);
  }

  // The parts of an update.
  KeyBatch Batch(const Keys& keys) {
    auto owner = std::make_shared<const Keys>(Ids(keys));
    return KeyBatch{owner->data(), owner->size(), owner};
  }
  Status Write(size_t table, const Keys& keys, uint32_t version) {
    return tables_[table]->Write(Ids(keys).data(), keys.size(),
                                 Values(table, keys, version).data());
  }
  Status WriteAll(const Keys& keys, uint32_t version) {
    Status status;
    for (size_t t = 0; t < tables_.size(); ++t) status.Update(Write(t, keys, version));
    return status;
  }
  // Without any announcement, like TFRA's accumulate.
  void Accumulate(size_t table, const Keys& keys, uint32_t version) {
    tables_[table]->WriteOutsideUpdate(Ids(keys).data(), keys.size(),
                                       Values(table, keys, version).data());
  }
  Status Erase(size_t table, const Keys& keys) {
    return tables_[table]->Remove(Ids(keys).data(), keys.size());
  }
  Status EraseAll(const Keys& keys) {
    Status status;
    for (size_t t = 0; t < tables_.size(); ++t) status.Update(Erase(t, keys));
    return status;
  }
  void ClearTables() {
    for (MemoryTable* table : tables_) table->Clear();
  }

  // What the input pipeline does long before an update.
  void Prefetch(const Keys& keys, size_t window) {
    group_.SaveBeforeUpdate([batch = Batch(keys)] { return batch; }, window);
  }

  // --- Cuts ---

  // Begins a cut of the current interval.
  Status Begin(CutOptions options) {
    options.interval = group_.Stats().interval;
    ADAPTCP_RETURN_IF_ERROR(TableGroup::Begin({&group_}, options));
    Began(options);
    return Status::OK();
  }
  // For cuts begun in several groups at once.
  void Began(const CutOptions& options) {
    cut_ = options;
    drained_ = DrainResult();
  }
  Status Drain() {
    return group_.Drain(files_, directory_, Concat(group_.options().name, "-", cut_.interval),
                        options_.max_writers, &drained_);
  }
  void Commit() {
    ASSERT_OK(group_.EndCut(true));
    chain_.Add(cut_, directory_, drained_.segments);
  }
  void Fail() { EXPECT_OK(group_.EndCut(false)); }
  // All of it.
  void Cut(const CutOptions& options) {
    ASSERT_OK(Begin(options));
    ASSERT_OK(Drain());
    Commit();
  }

  // What the segments of the latest cut hold.
  SavedRows Saved() {
    SavedRows saved;
    for (const WrittenSegment& segment : drained_.segments) {
      ReadSegment(files_, Concat(directory_, "/", segment.file_name), &saved);
    }
    return saved;
  }
  // The keys of the latest cut's only segment as they lie in it.
  Keys SavedInOrder() {
    Keys keys;
    EXPECT_EQ(drained_.segments.size(), 1u);
    std::unique_ptr<SegmentReader> reader;
    EXPECT_OK(SegmentReader::Open(files_, chain_.newest_first[0].path, &reader));
    for (size_t b = 0; b < reader->num_blocks(); ++b) {
      RowBlock block;
      EXPECT_OK(reader->ReadKeys(b, &block));
      keys.insert(keys.end(), block.keys.begin(), block.keys.end());
    }
    return keys;
  }
  const CutCounts& counts() const { return drained_.counts; }
  const std::vector<WrittenSegment>& segments() const { return drained_.segments; }
  // Of the latest committed checkpoint.
  const Chain& chain() const { return chain_; }

  // --- Restore ---

  // Loads a checkpoint; later cuts go to `directory`.
  Status RestoreFrom(const Chain& chain, size_t threads = 2, const std::string& directory = "run2",
                     RestoreResult* result = nullptr, size_t read_threads = 8) {
    RestoreOptions options;
    options.interval = chain.interval;
    options.newest_first = chain.newest_first;
    options.saved_shards = chain.num_shards;
    options.threads = threads;
    options.read_threads = read_threads;
    RestoreResult ignored;
    chain_ = chain;
    directory_ = directory;
    return Restore({&group_}, files_, options, result == nullptr ? &ignored : result);
  }
  // What a fresh process gets from the latest committed checkpoint.
  Rows Restored(size_t threads = 2) {
    TestGroup fresh(files_, options_);
    EXPECT_OK(fresh.RestoreFrom(chain_, threads));
    EXPECT_EQ(fresh.group()->Stats().rows, fresh.rows().size());
    return fresh.rows();
  }

  // What the tables hold.
  Rows rows() {
    Rows rows;
    for (size_t t = 0; t < tables_.size(); ++t) {
      for (const auto& [id, value] : tables_[t]->Rows()) {
        const int64_t key = KeyOf(id);
        rows.try_emplace(key, tables_.size(), kAbsent).first->second[t] = VersionOf(key, t, value);
      }
    }
    return rows;
  }

  TableGroup* group() { return &group_; }
  MemoryTable* table(size_t i) { return tables_[i]; }
  MemoryFileSystem* files() { return files_; }
  const std::string& directory() const { return directory_; }
  void set_directory(const std::string& directory) { directory_ = directory; }
  // The numbers by which tables and tracker know the keys.
  Keys Ids(const Keys& keys) {
    if (options_.group.key_type != KeyType::kString) return keys;
    Keys ids;
    for (int64_t key : keys) ids.push_back(group_.interner()->Intern(KeyName(key)));
    return ids;
  }

 private:
  static TableGroupOptions WithName(TableGroupOptions options) {
    if (options.name.empty()) options.name = "group";
    return options;
  }
  int64_t KeyOf(int64_t id) {
    if (options_.group.key_type != KeyType::kString) return id;
    return KeyFromName(group_.interner()->KeyOf(id));
  }
  std::string Values(size_t table, const Keys& keys, uint32_t version) {
    std::string values;
    for (int64_t key : keys) {
      values += ValueOf(key, table, version, tables_[table]->spec().row_bytes);
    }
    return values;
  }

  MemoryFileSystem* const files_;
  const TestGroupOptions options_;
  TableGroup group_;
  std::vector<MemoryTable*> tables_;  // owned by group_
  std::string directory_ = "run1";
  CutOptions cut_;
  DrainResult drained_;
  Chain chain_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_TESTS_CC_ENGINE_TEST_GROUP_H_
