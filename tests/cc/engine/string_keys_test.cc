// SPDX-License-Identifier: Apache-2.0
// Groups with string and int32 keys, and the numbering of strings.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "custom_ops/engine/key_interner.h"
#include "tests/cc/engine/test_group.h"

namespace adaptcp {
namespace {

TestGroupOptions WithKeys(KeyType type) {
  TestGroupOptions options;
  options.group.key_type = type;
  return options;
}

TEST(StringKeysTest, CutsHoldTheStringsNotTheirNumbers) {
  MemoryFileSystem files;
  TestGroup group(&files, WithKeys(KeyType::kString));
  group.Insert({3, 1, 2}, 1);
  group.Cut(AllCold());
  ASSERT_OK(group.Begin(AllHot()));
  group.Remove({2});
  ASSERT_OK(group.Drain());
  group.Commit();
  group.Insert({4}, 2);
  group.Cut(AllHot());
  EXPECT_TRUE(group.Saved().at(2).tombstone);

  // A process that has given its numbers to other strings first.
  TestGroup restored(&files, WithKeys(KeyType::kString));
  restored.Ids({9, 8, 7, 2, 4, 1});
  ASSERT_OK(restored.RestoreFrom(group.chain()));
  EXPECT_EQ(restored.rows(), (Rows{{1, {1, 1}}, {3, {1, 1}}, {4, {2, 2}}}));
  restored.Insert({8, 3}, 3);
  restored.Cut(AllCold());
  EXPECT_EQ(restored.Restored(), restored.rows());
}

TEST(StringKeysTest, EmptyBinaryAndLongStringsAreKeys) {
  MemoryFileSystem files;
  TestGroup group(&files, WithKeys(KeyType::kString));
  const std::vector<std::string> names = {"", std::string("\0\xff\n", 3), std::string(100000, 'x')};
  Keys ids;
  for (const std::string& name : names) ids.push_back(group.group()->interner()->Intern(name));
  const KeyBatch batch{ids.data(), ids.size(), std::make_shared<int>()};
  const std::string values(ids.size() * group.table(0)->spec().row_bytes, 'v');
  ASSERT_OK(group.group()->Update(
      batch, [&] { return group.table(0)->Write(ids.data(), ids.size(), values.data()); }));
  group.Cut(AllCold());

  TestGroup restored(&files, WithKeys(KeyType::kString));
  ASSERT_OK(restored.RestoreFrom(group.chain()));
  EXPECT_EQ(restored.table(0)->Rows().size(), names.size());
  for (const std::string& name : names) {
    EXPECT_EQ(restored.table(0)->Rows().count(restored.group()->interner()->Intern(name)), 1u);
  }
}

TEST(StringKeysTest, Int32KeysKeepTheirSign) {
  MemoryFileSystem files;
  TestGroup group(&files, WithKeys(KeyType::kInt32));
  group.Insert({-5, INT32_MIN, INT32_MAX, 0}, 1);
  group.Cut(AllCold());
  EXPECT_EQ(group.Restored(), group.rows());
}

TEST(StringKeysTest, SegmentsOfAnotherKeyTypeAreRefused) {
  MemoryFileSystem files;
  TestGroup group(&files, WithKeys(KeyType::kString));
  group.Insert({1}, 1);
  group.Cut(AllCold());
  TestGroup other(&files, WithKeys(KeyType::kInt64));
  ExpectFailure(other.RestoreFrom(group.chain()), StatusCode::kInvalidArgument,
                "with int64 keys, found group 'group' shard 0 of 1 with string keys");
}

TEST(KeyInternerTest, NumbersCountUpAndStay) {
  KeyInterner interner;
  EXPECT_EQ(interner.Intern("a"), 0);
  EXPECT_EQ(interner.Intern("b"), 1);
  EXPECT_EQ(interner.Intern(""), 2);
  EXPECT_EQ(interner.Intern("a"), 0);
  EXPECT_EQ(interner.KeyOf(1), "b");
  EXPECT_EQ(interner.KeyOf(2), "");
}

TEST(KeyInternerTest, ReferencesStayValid) {
  KeyInterner interner;
  interner.Intern("short");
  const std::string& first = interner.KeyOf(0);
  for (int i = 0; i < 10000; ++i) interner.Intern(Concat("key ", i));
  EXPECT_EQ(&first, &interner.KeyOf(0));
  EXPECT_EQ(first, "short");
}

TEST(KeyInternerTest, ThreadsAgree) {
  KeyInterner interner;
  constexpr int kKeys = 2000;
  std::vector<std::vector<int64_t>> ids(4, std::vector<int64_t>(kKeys));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < ids.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kKeys; ++i) {
        // Each thread from another end.
        const int k = t % 2 == 0 ? i : kKeys - 1 - i;
        ids[t][k] = interner.Intern(Concat("key ", k));
        EXPECT_EQ(interner.KeyOf(ids[t][k]), Concat("key ", k));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& other : ids) EXPECT_EQ(other, ids[0]);
}

}  // namespace
}  // namespace adaptcp
