// SPDX-License-Identifier: Apache-2.0
// The table that the engine's tests rely on does what they think it does.

#include "custom_ops/testing/memory_table.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/cc/engine/test_length.h"
#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace {

class MemoryTableTest : public testing::Test {
 protected:
  MemoryTableTest() : table_(MakeTable("table", "float32", 1)) {}

  void Write(int64_t key, const std::string& value) {
    ASSERT_OK(table_.Write(&key, 1, value.data()));
  }
  std::string Read(int64_t key) {
    char value[4];
    uint8_t present = 0;
    const Status status = table_.Read(&key, 1, value, &present);
    if (!status.ok()) return status.message();
    const std::string found(value, sizeof(value));
    if (!present) return found == std::string(4, '\0') ? "absent" : "not zero";
    return found;
  }
  // What a read of `key` gives that is half-way while `change` runs.
  template <typename Change>
  std::string ReadDuring(int64_t key, Change change) {
    table_.PauseNextRead();
    std::string found;
    std::thread reader([&] { found = Read(key); });
    table_.AwaitPausedRead();
    change();
    table_.ResumeRead();
    reader.join();
    return found;
  }

  Watchdog watchdog_;
  MemoryTable table_;
};

TEST_F(MemoryTableTest, ReadsWhatWasWritten) {
  Write(1, "aaaa");
  Write(2, "bbbb");
  Write(1, "cccc");
  EXPECT_EQ(Read(1), "cccc");
  EXPECT_EQ(Read(2), "bbbb");
  EXPECT_EQ(Read(3), "absent");
  const int64_t key = 1;
  ASSERT_OK(table_.Remove(&key, 1));
  EXPECT_EQ(Read(1), "absent");
  EXPECT_EQ(table_.Rows().size(), 1u);
  EXPECT_EQ(table_.Size(), 1u);
  EXPECT_EQ(table_.rows_read(), 4u);
  table_.Clear();
  EXPECT_TRUE(table_.Rows().empty());
}

TEST_F(MemoryTableTest, TearsRowsThatChangeDuringTheRead) {
  for (int64_t key : {1, 2}) Write(key, "aaaa");
  EXPECT_EQ(ReadDuring(1, [&] { Write(1, "bbbb"); }), "^^^^");
  EXPECT_EQ(ReadDuring(2, [&] { Write(2, "bbbb"); }), "absent");
  EXPECT_EQ(ReadDuring(3, [&] { Write(3, "bbbb"); }), "^^^^");
  EXPECT_EQ(Read(1), "bbbb");
  EXPECT_EQ(Read(2), "bbbb");
}

TEST_F(MemoryTableTest, OtherChangesDoNotTear) {
  Write(1, "aaaa");
  EXPECT_EQ(ReadDuring(1, [&] { Write(2, "bbbb"); }), "aaaa");
  EXPECT_EQ(ReadDuring(1,
                       [&] {
                         const int64_t key = 1;
                         table_.WriteOutsideUpdate(&key, 1, "cccc");
                       }),
            "cccc");
}

TEST_F(MemoryTableTest, FailsOnDemandAndOnce) {
  Write(1, "aaaa");
  table_.FailNthRead(2, Internal("lost"));
  EXPECT_EQ(Read(1), "aaaa");
  EXPECT_EQ(Read(1), "lost");
  EXPECT_EQ(Read(1), "aaaa");
  table_.FailNthWrite(1, Internal("full"));
  const int64_t key = 1;
  EXPECT_EQ(table_.Write(&key, 1, "bbbb").message(), "full");
  EXPECT_EQ(Read(1), "aaaa");
  table_.FailNthWrite(1, Internal("full"));
  table_.ClearFaults();
  Write(1, "bbbb");
}

}  // namespace
}  // namespace adaptcp
