// SPDX-License-Identifier: Apache-2.0
// A compacted chain restores to the same tables, trackers included.

#include "custom_ops/engine/compactor.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/cc/engine/test_group.h"

namespace adaptcp {
namespace {

class CompactorTest : public ::testing::Test {
 protected:
  // A base, increments and differentials, with rows removed, absent from a slot and hot.
  void BuildChain(TestGroup* group) {
    for (int64_t key = 0; key < 300; ++key) group->Insert({key}, 1);
    group->Cut(Base());
    for (uint32_t step = 2; step < 9; ++step) {
      for (int64_t key = 0; key < 40; ++key) group->Insert({key * (step % 3 + 1)}, step);
      group->Insert({1000 + step}, step);
      group->Remove({50 + step, 1000 + step - 3});
      group->Cut(Threshold(0.5));
    }
  }

  Status Run(const Chain& chain, CompactResult* result, size_t threads = 1,
             const TableGroupOptions& group = {"group", 0, 1, KeyType::kInt64}) {
    CompactOptions options;
    options.group = group;
    options.interval = chain.interval;
    options.newest_first = chain.newest_first;
    options.threads = threads;
    return Compact(&files_, options, "compacted", "g0-s0of1", result);
  }

  Chain ToChain(const Chain& of, const CompactResult& result) {
    Chain chain;
    CutOptions cut = Base();
    cut.interval = of.interval;
    chain.Add(cut, "compacted", result.segments);
    return chain;
  }

  MemoryFileSystem files_;
};

TEST_F(CompactorTest, RestoresTheSameRowsOnAnyNumberOfThreads) {
  TestGroup group(&files_);
  BuildChain(&group);
  for (size_t threads : {1, 2, 5}) {
    CompactResult result;
    ASSERT_OK(Run(group.chain(), &result, threads));
    TestGroup fresh(&files_);
    ASSERT_OK(fresh.RestoreFrom(ToChain(group.chain(), result)));
    EXPECT_EQ(fresh.rows(), group.rows());
    EXPECT_EQ(result.rows, group.rows().size());
    EXPECT_GT(result.stale_rows, 0u);
    EXPECT_LE(result.segments.size(), threads);
  }
}

TEST_F(CompactorTest, KeepsRatesAndClasses) {
  TestGroup group(&files_);
  BuildChain(&group);
  SavedRows newest;  // by the chain, newest first
  for (const RestoreFile& file : group.chain().newest_first) {
    SavedRows rows;
    ReadSegment(&files_, file.path, &rows);
    newest.insert(rows.begin(), rows.end());
  }
  for (auto it = newest.begin(); it != newest.end();) {
    it->second.kind = SegmentKind::kBase;
    it = it->second.tombstone ? newest.erase(it) : ++it;
  }
  CompactResult result;
  ASSERT_OK(Run(group.chain(), &result, 3));
  SavedRows compacted;
  for (const WrittenSegment& segment : result.segments) {
    ReadSegment(&files_, Concat("compacted/", segment.file_name), &compacted);
  }
  EXPECT_EQ(compacted, newest);
}

TEST_F(CompactorTest, TrainingGoesOnFromIt) {
  TestGroup group(&files_);
  BuildChain(&group);
  CompactResult result;
  ASSERT_OK(Run(group.chain(), &result));
  TestGroup fresh(&files_);
  ASSERT_OK(fresh.RestoreFrom(ToChain(group.chain(), result)));
  fresh.Insert({1, 7, 5000}, 77);
  fresh.Remove({12});
  fresh.Cut(Threshold(0.5));
  EXPECT_EQ(fresh.Restored(2), fresh.rows());
}

TEST_F(CompactorTest, StringKeys) {
  TestGroupOptions options;
  options.group.key_type = KeyType::kString;
  TestGroup group(&files_, options);
  group.Insert({1, 2, 3}, 1);
  group.Cut(Base());
  group.Insert({2}, 2);
  group.Remove({3});
  group.Cut(AllCold());
  CompactResult result;
  ASSERT_OK(Run(group.chain(), &result, 1, {"group", 0, 1, KeyType::kString}));
  TestGroup fresh(&files_, options);
  ASSERT_OK(fresh.RestoreFrom(ToChain(group.chain(), result)));
  EXPECT_EQ(fresh.rows(), group.rows());
}

TEST_F(CompactorTest, ChainWithoutRowsGivesNoSegment) {
  TestGroup group(&files_);
  group.Insert({1}, 1);
  group.Cut(Base());
  group.Remove({1});
  group.Cut(AllCold());
  CompactResult result;
  ASSERT_OK(Run(group.chain(), &result));
  EXPECT_TRUE(result.segments.empty());
}

TEST_F(CompactorTest, QuantisedRowsAreRefused) {
  TestGroup group(&files_);
  group.Insert({1}, 1);
  CutOptions cut = Base();
  cut.slot_encoding = Encoding::kBfloat16;
  group.Cut(cut);
  CompactResult result;
  ExpectFailure(Run(group.chain(), &result), StatusCode::kInvalidArgument,
                "expected rows stored as they are, found bfloat16");
}

TEST_F(CompactorTest, DamageLeavesNoFile) {
  TestGroup group(&files_);
  BuildChain(&group);
  for (const RestoreFile& file : group.chain().newest_first) {
    const std::string whole = files_.Contents(file.path);
    for (size_t i = 0; i < whole.size(); i += 97) {
      files_.Corrupt(file.path, i, 1);
      CompactResult result;
      const Status status = Run(group.chain(), &result, 2);
      if (!status.ok()) {
        ExpectFailure(status, StatusCode::kDataLoss, file.path);
        uint64_t size;
        EXPECT_FALSE(files_.GetFileSize("compacted/g0-s0of1-base.acp", &size).ok());
      }
      for (const WrittenSegment& segment : result.segments) {
        ASSERT_OK(files_.DeleteFile(Concat("compacted/", segment.file_name)));
      }
      files_.SetContents(file.path, whole);
    }
  }
}

}  // namespace
}  // namespace adaptcp
