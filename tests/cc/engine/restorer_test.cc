// SPDX-License-Identifier: Apache-2.0
// What a chain of segments restores to, and which chains are refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/cc/engine/test_group.h"

namespace adaptcp {
namespace {

class RestorerTest : public testing::Test {
 protected:
  RestorerTest() : group_(&files_) {}

  // A base, two increments and a differential.
  void BuildChain() {
    group_.Insert({1, 2, 3, 4, 5}, 1);
    group_.Cut(Base());
    for (uint32_t i = 0; i < 6; ++i) {
      group_.Insert({1}, 2 + i);
      if (i == 0) group_.Insert({2}, 20);
      if (i == 3) group_.Remove({3});
      group_.Cut(Threshold(0.5));
    }
    ASSERT_EQ(group_.chain().newest_first.front().kind, SegmentKind::kDifferential);
    ASSERT_EQ(group_.chain().newest_first.back().kind, SegmentKind::kBase);
    ASSERT_GE(group_.chain().newest_first.size(), 4u);
  }
  const std::string& path(size_t i) { return group_.chain().newest_first[i].path; }

  // Restoring this chain into a group with these options must fail.
  void ExpectRefused(const Chain& chain, StatusCode code, const std::string& text,
                     const TestGroupOptions& options = {}) {
    for (size_t threads : {1, 3}) {
      TestGroup fresh(&files_, options);
      ExpectFailure(fresh.RestoreFrom(chain, threads), code, text);
    }
  }
  // After damage to a file, the failure must name it.
  void ExpectDamageNoticed(const std::string& damaged) {
    ExpectRefused(group_.chain(), StatusCode::kDataLoss, damaged);
  }

  MemoryFileSystem files_;
  TestGroup group_;
};

TEST_F(RestorerTest, NewestCopyOfEachRowWins) {
  BuildChain();
  EXPECT_EQ(group_.Restored(), (Rows{{1, {7, 7}}, {2, {20, 20}}, {4, {1, 1}}, {5, {1, 1}}}));
}

TEST_F(RestorerTest, ResultCountsRowsOnce) {
  BuildChain();
  TestGroup fresh(&files_);
  RestoreResult result;
  ASSERT_OK(fresh.RestoreFrom(group_.chain(), 2, "run2", &result));
  EXPECT_EQ(result.rows, 4u);
  EXPECT_GE(result.stale_rows, 3u);
  EXPECT_TRUE(result.tables_without_rows.empty());
  uint64_t bytes = 0;
  for (const RestoreFile& file : group_.chain().newest_first) bytes += file.bytes;
  EXPECT_LE(result.bytes_read, bytes);
  const GroupStats stats = fresh.group()->Stats();
  EXPECT_EQ(stats.rows, 4u);
  EXPECT_EQ(stats.restored_rows, 4u);
  EXPECT_EQ(stats.interval, 8u);
  EXPECT_FALSE(stats.base_required);
}

TEST_F(RestorerTest, EmptyChainRestoresEmptyTables) {
  Chain chain;
  chain.interval = 4;
  TestGroup fresh(&files_);
  RestoreResult result;
  ASSERT_OK(fresh.RestoreFrom(chain, 2, "run2", &result));
  EXPECT_EQ(result.rows, 0u);
  EXPECT_EQ(fresh.rows(), Rows{});
  EXPECT_EQ(fresh.group()->Stats().interval, 5u);
}

TEST_F(RestorerTest, ManyBlocksOnManyThreads) {
  TestGroupOptions options;
  options.dim = 4096;
  TestGroup group(&files_, options);
  Keys keys;
  for (int64_t key = 0; key < 1000; ++key) keys.push_back(key);
  group.Insert(keys, 1);
  group.Cut(Base());
  keys.resize(300);
  group.Insert(keys, 2);
  group.Cut(AllHot());
  EXPECT_EQ(group.Restored(1), group.rows());
  EXPECT_EQ(group.Restored(8), group.rows());
}

TEST_F(RestorerTest, BlocksWithoutCurrentRowsAreNotRead) {
  group_.Insert({1}, 1);
  group_.Cut(AllCold());
  const uint64_t one_copy = group_.segments()[0].summary.bytes;
  for (uint32_t i = 0; i < 20; ++i) {
    group_.Insert({1}, 2 + i);
    group_.Cut(AllCold());
  }
  TestGroup fresh(&files_);
  RestoreResult result;
  ASSERT_OK(fresh.RestoreFrom(group_.chain(), 2, "run2", &result));
  EXPECT_EQ(result.rows, 1u);
  EXPECT_EQ(result.stale_rows, 20u);
  // All key records, but the values of one copy only.
  const uint64_t values = group_.table(0)->spec().row_bytes + group_.table(1)->spec().row_bytes;
  EXPECT_LT(result.bytes_read, 21 * (one_copy - values));
  EXPECT_EQ((result.bytes_read - values) % 21, 0u);
}

TEST_F(RestorerTest, RestoreForgetsWhatTheTrackerKnew) {
  BuildChain();
  TestGroup used(&files_);
  used.Insert({77}, 1);
  used.Replace({78}, 1);
  used.ClearTables();
  ASSERT_OK(used.RestoreFrom(group_.chain()));
  EXPECT_EQ(used.rows(), group_.rows());
  EXPECT_EQ(used.group()->Stats().rows, 4u);
  used.Cut(Base());
  EXPECT_EQ(used.Restored(), group_.rows());
}

TEST_F(RestorerTest, TableThatWasNotSavedIsNamed) {
  BuildChain();
  TestGroupOptions options;
  options.tables = 3;
  TestGroup fresh(&files_, options);
  RestoreResult result;
  ASSERT_OK(fresh.RestoreFrom(group_.chain(), 2, "run2", &result));
  EXPECT_EQ(result.tables_without_rows, std::vector<std::string>{"table-2"});
  EXPECT_EQ(fresh.rows().at(2), (Row{20, 20, kAbsent}));
}

TEST_F(RestorerTest, SegmentsOfAnotherGroupOrShardAreRefused) {
  BuildChain();
  TestGroupOptions options;
  options.group.name = "other";
  ExpectRefused(group_.chain(), StatusCode::kInvalidArgument,
                "expected rows of group 'other' shard 0 of 1", options);
  Chain chain = group_.chain();
  chain.num_shards = 2;
  ExpectRefused(chain, StatusCode::kInvalidArgument, "shard 0 of 2 with int64 keys, found group");
  chain = group_.chain();
  chain.newest_first[1].shard = 1;
  ExpectRefused(chain, StatusCode::kInvalidArgument, path(1));
}

TEST_F(RestorerTest, FailedRestoreRequiresABase) {
  BuildChain();
  TestGroup fresh(&files_);
  ASSERT_OK(fresh.RestoreFrom(group_.chain()));
  const std::string base = group_.chain().newest_first.back().path;
  std::string bytes = files_.Contents(base);
  bytes[bytes.size() / 2] ^= 1;
  files_.SetContents(base, bytes);
  EXPECT_FALSE(fresh.RestoreFrom(group_.chain()).ok());
  EXPECT_TRUE(fresh.group()->Stats().base_required);
  ExpectFailure(fresh.Begin(AllCold()), StatusCode::kFailedPrecondition, "expected a base");
}

TEST_F(RestorerTest, ShardsMustHaveTheSameTables) {
  std::vector<std::unique_ptr<TestGroup>> shards;
  std::vector<TableGroup*> groups;
  for (uint32_t s = 0; s < 2; ++s) {
    TestGroupOptions options;
    options.tables = 2 - s;
    options.group.shard = s;
    options.group.num_shards = 2;
    shards.push_back(std::make_unique<TestGroup>(&files_, options));
    groups.push_back(shards.back()->group());
  }
  RestoreResult result;
  ExpectFailure(Restore(groups, &files_, RestoreOptions(), &result),
                StatusCode::kFailedPrecondition, "shard 1 has other tables than shard 0");
}

TEST_F(RestorerTest, MoreFilesThanMayBeOpen) {
  for (uint32_t i = 0; i < 300; ++i) {
    group_.Insert({i % 7, 100 + i}, 1 + i);
    group_.Cut(AllCold());
  }
  EXPECT_EQ(group_.Restored(3), group_.rows());
}

TEST_F(RestorerTest, ShardsMustBeComplete) {
  BuildChain();
  TestGroupOptions options;
  options.group.num_shards = 2;
  ExpectRefused(group_.chain(), StatusCode::kInvalidArgument,
                "expected all shards of group 'group' in order, received shard 0 of 2", options);
}

TEST_F(RestorerTest, SlotsMayBeLeftOut) {
  BuildChain();
  TestGroup fresh(&files_);
  RestoreOptions options;
  options.interval = group_.chain().interval;
  options.newest_first = group_.chain().newest_first;
  options.slots = false;
  RestoreResult result;
  ASSERT_OK(Restore({fresh.group()}, &files_, options, &result));
  EXPECT_EQ(result.rows, 4u);
  EXPECT_EQ(result.tables_without_rows, std::vector<std::string>{"table-1"});
  EXPECT_EQ(fresh.rows(),
            (Rows{{1, {7, kAbsent}}, {2, {20, kAbsent}}, {4, {1, kAbsent}}, {5, {1, kAbsent}}}));
}

TEST_F(RestorerTest, TablesOfAnotherShapeAreRefused) {
  BuildChain();
  TestGroupOptions options;
  options.dim = 7;
  ExpectRefused(group_.chain(), StatusCode::kInvalidArgument,
                "table 'table-0' was saved as float32 x 4, the model has float32 x 7", options);
  options = TestGroupOptions();
  options.tables = 1;
  ExpectRefused(group_.chain(), StatusCode::kInvalidArgument,
                "table 'table-1' of group 'group' was saved", options);
  TableGroup bfloat({"group", 0, 1, KeyType::kInt64}, BlockBudget::Process(),
                    UpdateLogBudget::Process());
  for (uint32_t t = 0; t < 2; ++t) {
    ASSERT_OK(bfloat.Attach(
        t, &bfloat,
        std::make_unique<MemoryTable>(MakeTable(Concat("table-", t), "bfloat16", 4 + t))));
  }
  RestoreResult result;
  RestoreOptions restore;
  restore.interval = group_.chain().interval;
  restore.newest_first = group_.chain().newest_first;
  ExpectFailure(Restore({&bfloat}, &files_, restore, &result), StatusCode::kInvalidArgument,
                "saved as float32 x 4, the model has bfloat16 x 4");
}

TEST_F(RestorerTest, MissingFileIsNamed) {
  BuildChain();
  ASSERT_OK(files_.DeleteFile(path(1)));
  ExpectRefused(group_.chain(), StatusCode::kNotFound, path(1));
}

TEST_F(RestorerTest, SwappedFilesAreRefused) {
  BuildChain();
  const std::string first = files_.Contents(path(0)), second = files_.Contents(path(1));
  files_.SetContents(path(0), second);
  files_.SetContents(path(1), first);
  ExpectDamageNoticed(Concat(path(0), ": not the segment that the manifest names"));
}

TEST_F(RestorerTest, FileOfAnotherCutIsRefused) {
  BuildChain();
  Chain chain = group_.chain();
  chain.newest_first[1].interval -= 1;
  ExpectRefused(chain, StatusCode::kDataLoss, "expected the increment of interval");
  chain = group_.chain();
  chain.newest_first[1].kind = SegmentKind::kBase;
  ExpectRefused(chain, StatusCode::kDataLoss, "expected the base of interval");
}

TEST_F(RestorerTest, RowsOfTheFutureAreRefused) {
  BuildChain();
  Chain chain = group_.chain();
  chain.interval = 3;
  ExpectRefused(chain, StatusCode::kDataLoss, Concat(path(0), ": a row was last updated in"));
}

TEST_F(RestorerTest, TruncatedFilesAreNoticed) {
  BuildChain();
  const std::string whole = files_.Contents(path(1));
  for (size_t size = 0; size < whole.size(); size += 5) {
    files_.SetContents(path(1), whole.substr(0, size));
    ExpectDamageNoticed(path(1));
  }
}

TEST_F(RestorerTest, FlippedBytesAreNoticedOrHarmless) {
  BuildChain();
  const Rows expected = group_.rows();
  for (size_t f = 0; f < group_.chain().newest_first.size(); ++f) {
    const std::string whole = files_.Contents(path(f));
    for (size_t i = 0; i < whole.size(); i += 3) {
      files_.Corrupt(path(f), i, 1);
      TestGroup fresh(&files_);
      const Status status = fresh.RestoreFrom(group_.chain(), 1);
      if (status.ok()) {
        EXPECT_EQ(fresh.rows(), expected) << path(f) << " byte " << i;
      } else {
        ExpectFailure(status, StatusCode::kDataLoss, path(f));
      }
      files_.SetContents(path(f), whole);
    }
  }
}

TEST_F(RestorerTest, FailedReadsAndWritesAreReported) {
  BuildChain();
  for (int nth = 1; nth < 40; nth += 4) {
    files_.FailNth(MemoryFileSystem::kRead, nth, Internal("gone"));
    TestGroup fresh(&files_);
    const Status status = fresh.RestoreFrom(group_.chain());
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInternal) << status.message();
    files_.ClearFaults();
    // The second attempt, into cleared tables, succeeds.
    fresh.ClearTables();
    ASSERT_OK(fresh.RestoreFrom(group_.chain()));
    EXPECT_EQ(fresh.rows(), group_.rows());
  }
  TestGroup fresh(&files_);
  fresh.table(1)->FailNthWrite(1, Internal("no room"));
  ExpectFailure(fresh.RestoreFrom(group_.chain()), StatusCode::kInternal, "no room");
}

}  // namespace
}  // namespace adaptcp
