// SPDX-License-Identifier: Apache-2.0
// Files through TensorFlow: durable after Sync, errors that name the file.

#include "custom_ops/io/tf_file_system.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "custom_ops/engine/segment_reader.h"
#include "custom_ops/engine/segment_writer.h"
#include "tests/cc/engine/read_columns.h"
#include "tests/cc/format/segment_samples.h"

namespace adaptcp {
namespace {

// What the fsync below saw and is to do.
std::vector<std::string>& SyncedPaths() {
  static std::vector<std::string> paths;
  return paths;
}
int fsync_errno = 0;

std::string PathOf(int fd) {
  char path[PATH_MAX];
  const ssize_t size = readlink(Concat("/proc/self/fd/", fd).c_str(), path, sizeof(path));
  return size < 0 ? "" : std::string(path, static_cast<size_t>(size));
}

}  // namespace
}  // namespace adaptcp

// Takes the C library's place in this program, so that a test can see what is made durable.
extern "C" int fsync(int fd) {
  adaptcp::SyncedPaths().push_back(adaptcp::PathOf(fd));
  if (adaptcp::fsync_errno != 0) {
    errno = adaptcp::fsync_errno;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace adaptcp {
namespace {

class TfFileSystemTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "adaptcp-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    char resolved[PATH_MAX];
    ASSERT_NE(realpath(pattern.c_str(), resolved), nullptr);
    directory_ = resolved;
    SyncedPaths().clear();
    fsync_errno = 0;
  }

  void TearDown() override {
    tensorflow::int64 files = 0;
    tensorflow::int64 directories = 0;
    EXPECT_TRUE(
        tensorflow::Env::Default()->DeleteRecursively(directory_, &files, &directories).ok());
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  Status Write(const std::string& path, const std::string& bytes) {
    std::unique_ptr<WritableFile> file;
    ADAPTCP_RETURN_IF_ERROR(files_.NewWritableFile(path, &file));
    ADAPTCP_RETURN_IF_ERROR(file->Append(bytes.data(), bytes.size()));
    ADAPTCP_RETURN_IF_ERROR(file->Sync());
    return file->Close();
  }

  Status Read(const std::string& path, uint64_t offset, size_t size, std::string* bytes) {
    std::unique_ptr<RandomAccessFile> file;
    ADAPTCP_RETURN_IF_ERROR(files_.NewRandomAccessFile(path, &file));
    bytes->resize(size);
    return file->Read(offset, size, bytes->data());
  }

  TfFileSystem files_;
  std::string directory_;
};

TEST_F(TfFileSystemTest, WrittenBytesReadBackFromEveryKindOfPath) {
  for (const std::string& path : {Path("a"), "file://" + Path("b"), std::string("ram://dir/c")}) {
    ASSERT_OK(Write(path, "hello world"));
    uint64_t size = 0;
    ASSERT_OK(files_.GetFileSize(path, &size));
    EXPECT_EQ(size, 11u);
    std::string bytes;
    ASSERT_OK(Read(path, 6, 5, &bytes));
    EXPECT_EQ(bytes, "world");
    ASSERT_OK(files_.DeleteFile(path));
    ExpectFailure(files_.GetFileSize(path, &size), StatusCode::kNotFound, path);
  }
}

TEST_F(TfFileSystemTest, SyncReachesTheDiskForFileAndDirectory) {
  for (const std::string scheme : {"", "file://", "file://localhost"}) {
    SyncedPaths().clear();
    std::unique_ptr<WritableFile> file;
    ASSERT_OK(files_.NewWritableFile(scheme + Path("a"), &file));
    ASSERT_OK(file->Append("x", 1));
    ASSERT_OK(file->Sync());
    EXPECT_EQ(SyncedPaths(), (std::vector<std::string>{Path("a"), directory_})) << scheme;
    // The entry in the directory is durable by now.
    ASSERT_OK(file->Sync());
    EXPECT_EQ(SyncedPaths().size(), 3u);
    EXPECT_EQ(SyncedPaths().back(), Path("a"));
    ASSERT_OK(file->Close());
  }
}

TEST_F(TfFileSystemTest, RenameReplacesTheTargetAndReachesTheDisk) {
  for (const std::string scheme : {"", "file://"}) {
    ASSERT_OK(Write(Path("b"), "old"));
    ASSERT_OK(Write(Path("a"), "new"));
    SyncedPaths().clear();
    ASSERT_OK(files_.RenameFile(scheme + Path("a"), scheme + Path("b")));
    EXPECT_EQ(SyncedPaths(), (std::vector<std::string>{directory_})) << scheme;
    std::string bytes;
    ASSERT_OK(Read(Path("b"), 0, 3, &bytes));
    EXPECT_EQ(bytes, "new");
    ExpectFailure(files_.RenameFile(scheme + Path("a"), scheme + Path("b")), StatusCode::kNotFound,
                  Path("a"));
  }
}

TEST_F(TfFileSystemTest, RelativePathsSyncTheWorkingDirectory) {
  ASSERT_EQ(chdir(directory_.c_str()), 0);
  const Status status = Write("a", "x");
  // The directory goes with the test.
  ASSERT_EQ(chdir("/"), 0);
  ASSERT_OK(status);
  EXPECT_EQ(SyncedPaths(), (std::vector<std::string>{Path("a"), directory_}));
}

TEST_F(TfFileSystemTest, SyncedBytesAreVisibleBeforeClose) {
  std::unique_ptr<WritableFile> file;
  ASSERT_OK(files_.NewWritableFile(Path("a"), &file));
  ASSERT_OK(file->Append("abc", 3));
  ASSERT_OK(file->Sync());
  std::string bytes;
  ASSERT_OK(Read(Path("a"), 0, 3, &bytes));
  EXPECT_EQ(bytes, "abc");
}

TEST_F(TfFileSystemTest, FailingFsyncIsReported) {
  fsync_errno = EIO;
  const Status status = Write(Path("a"), "x");
  ExpectFailure(status, status.code(), Path("a") + ": fsync failed");
  EXPECT_FALSE(status.ok());
  fsync_errno = ENOSPC;
  ExpectFailure(Write(Path("a"), "x"), StatusCode::kResourceExhausted, "fsync failed");
}

TEST_F(TfFileSystemTest, FullDiskIsResourceExhaustedAndNamesPathAndBytes) {
  std::unique_ptr<WritableFile> file;
  ASSERT_OK(files_.NewWritableFile("/dev/full", &file));
  const std::string bytes(1 << 20, 'x');
  ExpectFailure(file->Append(bytes.data(), bytes.size()), StatusCode::kResourceExhausted,
                "/dev/full: cannot append 1048576 bytes at offset 0: ");
  // Small writes wait in a buffer until they are synced.
  ASSERT_OK(files_.NewWritableFile("/dev/full", &file));
  ASSERT_OK(file->Append("abc", 3));
  ExpectFailure(file->Sync(), StatusCode::kResourceExhausted,
                "/dev/full: cannot write out 3 bytes: ");
}

TEST_F(TfFileSystemTest, ReadingPastTheEndIsDataLoss) {
  ASSERT_OK(Write(Path("a"), "abc"));
  std::string bytes;
  ExpectFailure(Read(Path("a"), 1, 3, &bytes), StatusCode::kDataLoss,
                Path("a") + ": cannot read 3 bytes at offset 1");
  ExpectFailure(Read(Path("a"), 100, 1, &bytes), StatusCode::kDataLoss, Path("a"));
}

TEST_F(TfFileSystemTest, MissingFilesAndDirectoriesAreNotFound) {
  std::string bytes;
  uint64_t size = 0;
  ExpectFailure(Write(Path("none/a"), "x"), StatusCode::kNotFound,
                Path("none/a") + ": cannot create the file");
  ExpectFailure(Read(Path("a"), 0, 1, &bytes), StatusCode::kNotFound,
                Path("a") + ": cannot open the file");
  ExpectFailure(files_.GetFileSize(Path("a"), &size), StatusCode::kNotFound, Path("a"));
  ExpectFailure(files_.DeleteFile(Path("a")), StatusCode::kNotFound,
                Path("a") + ": cannot delete the file");
}

TEST_F(TfFileSystemTest, UnknownSchemesAreRefused) {
  const Status status = Write("nosuchscheme://a/b", "x");
  ExpectFailure(status, StatusCode::kUnimplemented, "nosuchscheme://a/b: cannot create the file");
}

TEST_F(TfFileSystemTest, SegmentsRoundTripOnEveryKindOfPath) {
  const SegmentHeader header = MakeHeader();
  const RowBlock rows = BlockMaker(header).Rows(1000);
  for (const std::string& path : {Path("a.acp"), std::string("ram://dir/a.acp")}) {
    std::unique_ptr<SegmentWriter> writer;
    SegmentSummary summary;
    ASSERT_OK(SegmentWriter::Open(&files_, path, header, &writer));
    ASSERT_OK(writer->Append(rows));
    ASSERT_OK(writer->Finish(&summary));
    std::unique_ptr<SegmentReader> reader;
    ASSERT_OK(SegmentReader::Open(&files_, path, &reader));
    EXPECT_OK(reader->Verify());
    EXPECT_EQ(reader->bytes(), summary.bytes);
    RowBlock read;
    ASSERT_OK(reader->ReadKeys(0, &read));
    ASSERT_OK(ReadColumns(*reader, 0, &read));
    EXPECT_TRUE(read == rows);
  }
}

TEST_F(TfFileSystemTest, AbandonedSegmentIsGone) {
  std::unique_ptr<SegmentWriter> writer;
  ASSERT_OK(SegmentWriter::Open(&files_, Path("a.acp"), MakeHeader(), &writer));
  writer.reset();
  uint64_t size = 0;
  ExpectFailure(files_.GetFileSize(Path("a.acp"), &size), StatusCode::kNotFound, Path("a.acp"));
}

}  // namespace
}  // namespace adaptcp
