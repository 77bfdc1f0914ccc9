// SPDX-License-Identifier: Apache-2.0
// The in-memory file system fails as it is told to, so that tests can rely on its faults.

#include "custom_ops/testing/memory_file_system.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace {

const Status kBroken(StatusCode::kUnavailable, "broken");

class MemoryFileSystemTest : public testing::Test {
 protected:
  std::unique_ptr<WritableFile> Create(const std::string& path) {
    std::unique_ptr<WritableFile> file;
    EXPECT_OK(files_.NewWritableFile(path, &file));
    return file;
  }

  static Status Append(WritableFile* file, const std::string& bytes) {
    return file->Append(bytes.data(), bytes.size());
  }

  MemoryFileSystem files_;
};

TEST_F(MemoryFileSystemTest, WrittenBytesReadBack) {
  const auto file = Create("a");
  ASSERT_OK(Append(file.get(), "hello "));
  ASSERT_OK(Append(file.get(), "world"));
  ASSERT_OK(file->Close());
  uint64_t size = 0;
  ASSERT_OK(files_.GetFileSize("a", &size));
  EXPECT_EQ(size, 11u);
  std::unique_ptr<RandomAccessFile> reader;
  ASSERT_OK(files_.NewRandomAccessFile("a", &reader));
  char word[5];
  ASSERT_OK(reader->Read(6, 5, word));
  EXPECT_EQ(std::string(word, 5), "world");
  ExpectFailure(reader->Read(7, 5, word), StatusCode::kDataLoss,
                "a: offset 7: expected 5 bytes, found 4");
  ExpectFailure(reader->Read(~uint64_t{0}, 5, word), StatusCode::kDataLoss, "found 0");
}

TEST_F(MemoryFileSystemTest, MissingFilesAreNotFound) {
  std::unique_ptr<RandomAccessFile> reader;
  uint64_t size = 0;
  ExpectFailure(files_.NewRandomAccessFile("a", &reader), StatusCode::kNotFound, "a:");
  ExpectFailure(files_.GetFileSize("a", &size), StatusCode::kNotFound, "a:");
  ExpectFailure(files_.DeleteFile("a"), StatusCode::kNotFound, "a:");
}

TEST_F(MemoryFileSystemTest, RenameReplacesTheTarget) {
  files_.SetContents("a", "new");
  files_.SetContents("b", "old");
  ASSERT_OK(files_.RenameFile("a", "b"));
  EXPECT_FALSE(files_.Exists("a"));
  EXPECT_EQ(files_.Contents("b"), "new");
  ExpectFailure(files_.RenameFile("a", "b"), StatusCode::kNotFound, "a:");
}

TEST_F(MemoryFileSystemTest, OnlyTheNthOperationFails) {
  const auto file = Create("a");
  files_.FailNth(MemoryFileSystem::kAppend, 2, kBroken);
  EXPECT_OK(Append(file.get(), "12"));
  ExpectFailure(Append(file.get(), "3456"), StatusCode::kUnavailable, "a: broken");
  EXPECT_OK(Append(file.get(), "78"));
  EXPECT_EQ(files_.Contents("a"), "123478");
}

TEST_F(MemoryFileSystemTest, EveryOperationFromTheNthOnFails) {
  const auto file = Create("a");
  files_.FailFromNth(MemoryFileSystem::kSync, 2, kBroken);
  EXPECT_OK(file->Sync());
  EXPECT_EQ(file->Sync().code(), StatusCode::kUnavailable);
  EXPECT_EQ(file->Sync().code(), StatusCode::kUnavailable);
  files_.ClearFaults();
  EXPECT_OK(file->Sync());
  EXPECT_EQ(files_.OperationCount(MemoryFileSystem::kSync), 4);
}

TEST_F(MemoryFileSystemTest, FullDiskTakesWhatFits) {
  const auto first = Create("a");
  const auto second = Create("b");
  files_.SetCapacity(6);
  EXPECT_OK(Append(first.get(), "1234"));
  ExpectFailure(Append(second.get(), "5678"), StatusCode::kResourceExhausted, "b: no space left");
  EXPECT_EQ(files_.Contents("b"), "56");
  ASSERT_OK(files_.DeleteFile("a"));
  EXPECT_OK(Append(second.get(), "7890"));
}

TEST_F(MemoryFileSystemTest, PowerLossKeepsOnlySyncedBytes) {
  const auto synced = Create("synced");
  const auto unsynced = Create("unsynced");
  ASSERT_OK(Append(synced.get(), "kept"));
  ASSERT_OK(synced->Sync());
  ASSERT_OK(Append(synced.get(), " lost"));
  ASSERT_OK(Append(unsynced.get(), "lost"));
  ASSERT_OK(unsynced->Close());
  files_.DropUnsynced();
  EXPECT_EQ(files_.Contents("synced"), "kept");
  EXPECT_EQ(files_.Paths(), std::vector<std::string>{"synced"});
  ASSERT_OK(Append(synced.get(), " and gone"));
  EXPECT_EQ(files_.Contents("synced"), "kept");
}

TEST_F(MemoryFileSystemTest, DamageChangesTheBytesNamed) {
  files_.SetContents("a", "abcdef");
  files_.Corrupt("a", 1, 2);
  EXPECT_EQ(files_.Contents("a"),
            "a\x9d\x9c"
            "def");
  files_.Truncate("a", 1);
  EXPECT_EQ(files_.Contents("a"), "a");
}

TEST_F(MemoryFileSystemTest, DelaysAreKept) {
  const auto file = Create("a");
  files_.SetDelay(MemoryFileSystem::kSync, std::chrono::milliseconds(5));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_OK(file->Sync());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(5));
}

TEST_F(MemoryFileSystemTest, ThreadsMayWriteDifferentFilesAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const auto file = Create(Concat("file", i));
      for (int round = 0; round < 100; ++round) EXPECT_OK(Append(file.get(), "x"));
      EXPECT_OK(file->Sync());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(files_.Contents(Concat("file", i)), std::string(100, 'x'));
}

}  // namespace
}  // namespace adaptcp
