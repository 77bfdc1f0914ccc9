// SPDX-License-Identifier: Apache-2.0
// Uploads: what is there afterwards, what is tried again, what is not.

#include "custom_ops/engine/uploader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "custom_ops/testing/memory_file_system.h"
#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace {

const Status kUnavailable(StatusCode::kUnavailable, "try again");
constexpr size_t kBytes = (size_t{5} << 19) + 7;  // two and a half of what is copied at a time

class UploaderTest : public testing::TestWithParam<bool> {
 protected:
  UploaderTest() {
    options_.atomic_writes = GetParam();
    options_.first_wait_secs = 1e-4;
    options_.longest_wait_secs = 1e-3;
    for (int i = 0; i < 3; ++i) {
      const std::string name = Concat("file-", i);
      // Of one length that tells them apart, and an empty one.
      const std::string bytes(i == 2 ? 0 : kBytes, static_cast<char>('a' + i));
      files_.SetContents("local/" + name, bytes);
      uploads_.push_back({"local/" + name, "remote/" + name, bytes.size()});
    }
  }

  Status Run() { return Upload(&files_, uploads_, options_, &result_); }
  void ExpectAllThere() {
    for (const UploadFile& file : uploads_) {
      EXPECT_TRUE(files_.Exists(file.target));
      EXPECT_EQ(files_.Contents(file.target), files_.Contents(file.source)) << file.target;
    }
    EXPECT_EQ(files_.Paths().size(), 2 * uploads_.size()) << "a temporary file is left";
  }

  MemoryFileSystem files_;
  std::vector<UploadFile> uploads_;
  UploadOptions options_;
  UploadResult result_;
};

TEST_P(UploaderTest, CopiesEveryByteDurably) {
  ASSERT_OK(Run());
  ExpectAllThere();
  EXPECT_EQ(result_.files, 3u);
  EXPECT_EQ(result_.bytes, 2 * kBytes);
  EXPECT_EQ(result_.retries, 0u);
  files_.DropUnsynced();
  ExpectAllThere();
}

TEST_P(UploaderTest, OneThreadCopiesAsMuchAsMany) {
  for (size_t threads : {1, 2, 16}) {
    for (const UploadFile& file : uploads_) (void)files_.DeleteFile(file.target).ok();
    options_.threads = threads;
    ASSERT_OK(Run());
    ExpectAllThere();
  }
}

TEST_P(UploaderTest, NothingToUploadIsFine) {
  uploads_.clear();
  ASSERT_OK(Run());
  EXPECT_EQ(result_.files, 0u);
}

TEST_P(UploaderTest, FailuresThatMayPassAreTriedAgain) {
  for (auto operation : {MemoryFileSystem::kAppend, MemoryFileSystem::kSync,
                         MemoryFileSystem::kClose, MemoryFileSystem::kRename}) {
    if (operation == MemoryFileSystem::kRename && options_.atomic_writes) continue;
    SCOPED_TRACE(operation);
    for (const UploadFile& file : uploads_) (void)files_.DeleteFile(file.target).ok();
    files_.FailNth(operation, 2, kUnavailable);
    ASSERT_OK(Run());
    ExpectAllThere();
    EXPECT_EQ(result_.retries, 1u);
  }
}

TEST_P(UploaderTest, StoreThatStaysAwayIsAnErrorThatSaysHowOftenItWasTried) {
  options_.attempts = 3;
  options_.threads = 1;
  // The first file takes three.
  files_.FailFromNth(MemoryFileSystem::kAppend, 4, kUnavailable);
  const Status status = Run();
  ExpectFailure(status, StatusCode::kUnavailable, "remote/file-1");
  ExpectFailure(status, StatusCode::kUnavailable, "3 attempts");
  EXPECT_EQ(result_.files, 1u);
  EXPECT_EQ(result_.retries, 2u);
}

TEST_P(UploaderTest, ResumeLeavesAloneWhatIsThere) {
  options_.attempts = 1;
  options_.threads = 1;
  // The first file takes three.
  files_.FailFromNth(MemoryFileSystem::kAppend, 4, kUnavailable);
  EXPECT_FALSE(Run().ok());
  files_.ClearFaults();
  options_.resume = true;
  ASSERT_OK(Run());
  ExpectAllThere();
  EXPECT_EQ(result_.files, 3u);
  EXPECT_EQ(result_.bytes, kBytes) << "the first file was copied again";
}

TEST_P(UploaderTest, ResumeReplacesAFileOfAnotherSize) {
  files_.SetContents(uploads_[0].target, "half of it");
  options_.resume = true;
  ASSERT_OK(Run());
  ExpectAllThere();
}

TEST_P(UploaderTest, FileWhoseSourceIsGoneIsFineOnceItIsThere) {
  ASSERT_OK(Run());
  for (const UploadFile& file : uploads_) ASSERT_OK(files_.DeleteFile(file.source));
  options_.resume = true;
  ASSERT_OK(Run());
  EXPECT_EQ(result_.files, 3u);
  EXPECT_EQ(result_.bytes, 0u);
}

TEST_P(UploaderTest, LookingThatFailsIsTriedAgain) {
  options_.resume = true;
  options_.threads = 1;
  // The first look is at the target.
  files_.FailNth(MemoryFileSystem::kSize, 1, kUnavailable);
  ASSERT_OK(Run());
  ExpectAllThere();
  EXPECT_EQ(result_.retries, 1u);
}

TEST_P(UploaderTest, AnswerThatGotLostIsNotPaidForTwice) {
  options_.threads = 1;
  files_.FailNth(MemoryFileSystem::kClose, 1, kUnavailable);
  ASSERT_OK(Run());
  ExpectAllThere();
  EXPECT_EQ(result_.retries, 1u);
  // The first file was there, only nobody said so; elsewhere it had another name until it was
  // whole.
  EXPECT_EQ(result_.bytes, options_.atomic_writes ? kBytes : 2 * kBytes);
}

TEST_P(UploaderTest, WhatCannotPassIsNotTriedAgain) {
  for (StatusCode code : {StatusCode::kNotFound, StatusCode::kFailedPrecondition,
                          StatusCode::kInvalidArgument, StatusCode::kUnimplemented}) {
    files_.FailFromNth(MemoryFileSystem::kSync, 1, Status(code, "no"));
    options_.threads = 1;
    ExpectFailure(Run(), code, "no");
    EXPECT_EQ(result_.retries, 0u);
  }
}

TEST_P(UploaderTest, SourceThatIsMissingOrOfAnotherSizeIsNamed) {
  options_.threads = 1;  // so that nothing comes after the failure
  ++uploads_[0].bytes;
  ExpectFailure(Run(), StatusCode::kDataLoss,
                Concat("local/file-0: expected a file of ", kBytes + 1, " bytes"));
  EXPECT_FALSE(files_.Exists(uploads_[0].target));
  --uploads_[0].bytes;
  ASSERT_OK(files_.DeleteFile(uploads_[1].source));
  ExpectFailure(Run(), StatusCode::kDataLoss, "local/file-1");
  EXPECT_FALSE(files_.Exists(uploads_[1].target));
}

INSTANTIATE_TEST_SUITE_P(Stores, UploaderTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "AtomicWrites" : "Renames");
});

}  // namespace
}  // namespace adaptcp
