// SPDX-License-Identifier: Apache-2.0
// A checkpoint of any number of shards restores into any other number: rows go where the partition
// function says, and training goes on from there.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/cc/engine/test_group.h"

namespace adaptcp {
namespace {

constexpr int64_t kKeys = 300;

// The shards of one group; key k belongs to shard k % n.
class Shards {
 public:
  Shards(MemoryFileSystem* files, uint32_t n, KeyType key_type, const std::string& directory)
      : files_(files), directory_(directory) {
    TestGroupOptions options;
    options.group.num_shards = n;
    options.group.key_type = key_type;
    for (options.group.shard = 0; options.group.shard < n; ++options.group.shard) {
      shards_.push_back(std::make_unique<TestGroup>(files, options));
    }
  }

  void Insert(const Keys& keys, uint32_t version) {
    for (size_t s = 0; s < shards_.size(); ++s) shards_[s]->Insert(Of(keys, s), version);
  }
  void Remove(const Keys& keys) {
    for (size_t s = 0; s < shards_.size(); ++s) shards_[s]->Remove(Of(keys, s));
  }
  void Cut(const CutOptions& options) {
    for (size_t s = 0; s < shards_.size(); ++s) {
      // A directory for each, since the test groups name files by interval only.
      shards_[s]->set_directory(Concat(directory_, "-", s));
      shards_[s]->Cut(options);
    }
  }

  // The files of all shards as a manifest would list them.
  RestoreOptions Options() const {
    RestoreOptions options;
    options.interval = shards_[0]->chain().interval;
    options.saved_shards = static_cast<uint32_t>(shards_.size());
    for (const auto& shard : shards_) {
      const std::vector<RestoreFile>& files = shard->chain().newest_first;
      options.newest_first.insert(options.newest_first.end(), files.begin(), files.end());
    }
    const auto age = [](const RestoreFile& file) {
      return file.kind == SegmentKind::kDifferential ? ~uint64_t{0} : uint64_t{file.interval};
    };
    std::stable_sort(options.newest_first.begin(), options.newest_first.end(),
                     [&](const RestoreFile& a, const RestoreFile& b) { return age(a) > age(b); });
    return options;
  }

  Status RestoreFrom(RestoreOptions options, RestoreResult* result) {
    std::vector<TableGroup*> groups;
    for (const auto& shard : shards_) groups.push_back(shard->group());
    if (!options.partition) {
      options.partition = [this](const RowBlock& block, std::vector<int32_t>* shard) {
        for (size_t i = 0; i < block.rows(); ++i) {
          const int64_t key =
              block.keys.empty() ? KeyFromName(block.string_keys[i]) : block.keys[i];
          (*shard)[i] = static_cast<int32_t>(key % static_cast<int64_t>(shards_.size()));
        }
        return Status::OK();
      };
    }
    return Restore(groups, files_, options, result);
  }

  // All rows; expects each in its shard.
  Rows rows() {
    Rows all;
    for (size_t s = 0; s < shards_.size(); ++s) {
      const Rows here = shards_[s]->rows();
      EXPECT_EQ(here.size(), shards_[s]->group()->Stats().rows);
      for (const auto& [key, row] : here) {
        EXPECT_EQ(static_cast<size_t>(key) % shards_.size(), s);
        EXPECT_TRUE(all.emplace(key, row).second);
      }
    }
    return all;
  }
  TestGroup* shard(size_t s) { return shards_[s].get(); }

 private:
  Keys Of(const Keys& keys, size_t s) const {
    Keys selected;
    for (int64_t key : keys) {
      if (static_cast<size_t>(key) % shards_.size() == s) selected.push_back(key);
    }
    return selected;
  }

  MemoryFileSystem* const files_;
  const std::string directory_;
  std::vector<std::unique_ptr<TestGroup>> shards_;
};

Keys Every(int64_t n, int64_t first = 0) {
  Keys keys;
  for (int64_t key = first; key < kKeys; key += n) keys.push_back(key);
  return keys;
}

// A base, increments with removed keys, and a differential.
void Train(Shards* shards) {
  shards->Insert(Every(1), 1);
  shards->Cut(Base());
  for (uint32_t i = 0; i < 6; ++i) {
    shards->Insert(Every(5), 10 + i);
    if (i % 2 == 0) shards->Insert(Every(7, i), 20 + i);
    if (i == 3) shards->Remove(Every(11));
    shards->Cut(Threshold(0.6));
  }
}

class ReshardingTest : public testing::TestWithParam<KeyType> {};

TEST_P(ReshardingTest, AnyNumberOfShardsIntoAnyOther) {
  for (uint32_t from : {1, 2, 3, 4, 8}) {
    MemoryFileSystem files;
    Shards saved(&files, from, GetParam(), "saved");
    Train(&saved);
    const Rows expected = saved.rows();
    for (uint32_t to : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE(Concat(from, " to ", to));
      Shards restored(&files, to, GetParam(), Concat("restored-", to));
      RestoreOptions options = saved.Options();
      options.threads = 1 + to % 3;
      RestoreResult result;
      ASSERT_OK(restored.RestoreFrom(options, &result));
      EXPECT_EQ(result.rows, expected.size());
      EXPECT_EQ(restored.rows(), expected);
      // And on, from a base.
      restored.Insert(Every(3), 99);
      restored.Cut(Base());
      restored.Remove(Every(4));
      restored.Cut(Threshold(0.6));
      Shards again(&files, 1, GetParam(), "again");
      ASSERT_OK(again.RestoreFrom(restored.Options(), &result));
      EXPECT_EQ(again.rows(), restored.rows());
    }
  }
}

TEST_P(ReshardingTest, AsManyShardsGoOnWithoutABase) {
  MemoryFileSystem files;
  Shards saved(&files, 3, GetParam(), "saved");
  Train(&saved);
  Shards restored(&files, 3, GetParam(), "restored");
  RestoreResult result;
  ASSERT_OK(restored.RestoreFrom(saved.Options(), &result));
  for (size_t s = 0; s < 3; ++s) {
    const GroupStats stats = restored.shard(s)->group()->Stats();
    EXPECT_FALSE(stats.base_required);
    EXPECT_EQ(stats.interval, 8u);
  }
}

TEST_P(ReshardingTest, PartitionFunctionMayFailOrBeWrong) {
  MemoryFileSystem files;
  Shards saved(&files, 2, GetParam(), "saved");
  Train(&saved);
  RestoreResult result;
  RestoreOptions options = saved.Options();
  for (int32_t shard : {-1, 3, 1000}) {
    options.partition = [shard](const RowBlock&, std::vector<int32_t>* shards) {
      shards->back() = shard;
      return Status::OK();
    };
    Shards restored(&files, 3, GetParam(), "restored");
    ExpectFailure(restored.RestoreFrom(options, &result), StatusCode::kInvalidArgument,
                  Concat("expected shards from 0 to 2, received ", shard));
  }
  options.partition = [](const RowBlock&, std::vector<int32_t>*) { return Internal("no idea"); };
  Shards restored(&files, 3, GetParam(), "restored");
  ExpectFailure(restored.RestoreFrom(options, &result), StatusCode::kInternal, "no idea");
}

INSTANTIATE_TEST_SUITE_P(KeyTypes, ReshardingTest,
                         testing::Values(KeyType::kInt64, KeyType::kString),
                         [](const auto& info) { return KeyTypeName(info.param); });

}  // namespace
}  // namespace adaptcp
