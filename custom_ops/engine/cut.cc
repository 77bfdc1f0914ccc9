// SPDX-License-Identifier: Apache-2.0
// Block traffic between appenders and the writer thread.

#include "custom_ops/engine/cut.h"

#include <utility>

namespace adaptcp {
namespace {

SegmentKind KindOf(Lane lane) {
  switch (lane) {
    case Lane::kBase:
      return SegmentKind::kBase;
    case Lane::kDifferential:
      return SegmentKind::kDifferential;
    case Lane::kIncrement:
    case Lane::kTombstone:
      break;
  }
  return SegmentKind::kIncrement;
}

}  // namespace

Cut::Cut(const CutOptions& options, uint32_t first_interval, uint32_t tag, BlockPool* pool,
         std::vector<Table*> tables, DirtyLists dirty, std::deque<LoggedInsert> inserts)
    : options_(options),
      first_interval_(first_interval),
      tag_(tag),
      pool_(pool),
      tables_(std::move(tables)),
      dirty_(std::move(dirty)),
      inserts_(std::move(inserts)) {}

Cut::~Cut() {
  if (writer_thread_.joinable()) {
    Fail(Status(StatusCode::kCancelled, "the cut was given up"));
    {
      MutexLock lock(&mu_);
      last_block_queued_ = true;
      work_.Signal();
    }
    writer_thread_.join();
  }
  MutexLock lock(&mu_);
  for (QueuedBlock& queued : queue_) pool_->ReleaseFull(std::move(queued.block));
  for (auto& blocks : open_) {
    for (auto& block : blocks) pool_->Release(std::move(block));
  }
}

bool Cut::TakeInsert(LoggedInsert* insert) {
  if (inserts_.empty()) return false;
  *insert = std::move(inserts_.back());
  inserts_.pop_back();
  return true;
}

std::unique_ptr<RowBlock> Cut::TakeBlock(Lane lane, size_t room) {
  {
    MutexLock lock(&mu_);
    auto& open = open_[static_cast<size_t>(lane)];
    while (!open.empty()) {
      std::unique_ptr<RowBlock> block = std::move(open.back());
      open.pop_back();
      if (block->rows() + room <= pool_->capacity()) return block;
      Enqueue(lane, std::move(block));
    }
  }
  std::unique_ptr<RowBlock> block = pool_->Acquire();
  if (lane == Lane::kTombstone) block->columns.clear();
  return block;
}

void Cut::Enqueue(Lane lane, std::unique_ptr<RowBlock> block) {
  pool_->MarkFull();
  queue_.push_back({lane, std::move(block)});
  work_.Signal();
}

void Cut::GiveBackBlock(Lane lane, std::unique_ptr<RowBlock> block) {
  MutexLock lock(&mu_);
  open_[static_cast<size_t>(lane)].push_back(std::move(block));
}

void Cut::AddCooled(const std::vector<int64_t>& keys) {
  MutexLock lock(&mu_);
  cooled_.insert(cooled_.end(), keys.begin(), keys.end());
}

std::vector<int64_t> Cut::TakeCooled() {
  MutexLock lock(&mu_);
  return std::move(cooled_);
}

void Cut::AddUrgent(const KeyBatch& batch) {
  MutexLock lock(&mu_);
  // The drain will not catch up with more; the oldest would come too late anyway.
  if (urgent_.size() == kMaxUrgentBatches) urgent_.pop_front();
  urgent_.push_back(batch);
  has_urgent_ = true;
}

bool Cut::TakeUrgent(KeyBatch* batch) {
  if (!has_urgent_) return false;
  MutexLock lock(&mu_);
  if (urgent_.empty()) return false;
  *batch = std::move(urgent_.front());
  urgent_.pop_front();
  has_urgent_ = !urgent_.empty();
  return true;
}

void Cut::AddCounts(const CutCounts& counts) {
  MutexLock lock(&mu_);
  counts_.rows_hot += counts.rows_hot;
  counts_.rows_cold += counts.rows_cold;
  counts_.tombstones += counts.tombstones;
  counts_.rows_saved_on_update += counts.rows_saved_on_update;
  counts_.rows_drained += counts.rows_drained;
  counts_.rows_prefetched += counts.rows_prefetched;
  counts_.stall_nanos += counts.stall_nanos;
}

CutCounts Cut::counts() {
  MutexLock lock(&mu_);
  return counts_;
}

void Cut::Fail(const Status& why) {
  {
    MutexLock lock(&mu_);
    status_.Update(why);
  }
  pool_->StopWaiting();
}

Status Cut::status() {
  MutexLock lock(&mu_);
  return status_;
}

void Cut::StartWriting(FileSystem* file_system, const std::string& directory,
                       const std::string& file_prefix, const SegmentHeader& header) {
  file_system_ = file_system;
  directory_ = directory;
  file_prefix_ = file_prefix;
  header_ = header;
  header_.interval = options_.interval;
  header_.encoding = options_.encoding;
  header_.slot_encoding = options_.slot_encoding;
  writer_thread_ = std::thread([this] { WriteLoop(); });
}

void Cut::WriteLoop() {
  for (;;) {
    QueuedBlock queued;
    bool discard;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !last_block_queued_) work_.Wait(&mu_);
      if (queue_.empty()) return;
      queued = std::move(queue_.front());
      queue_.pop_front();
      discard = !status_.ok();
    }
    const Status written = discard ? Status::OK() : WriteBlock(queued);
    pool_->ReleaseFull(std::move(queued.block));
    if (!written.ok()) Fail(written);
  }
}

Status Cut::WriteBlock(const QueuedBlock& queued) {
  SegmentWriter* writer = nullptr;
  ADAPTCP_RETURN_IF_ERROR(WriterFor(queued.lane, &writer));
  return writer->Append(*queued.block);
}

Status Cut::WriterFor(Lane lane, SegmentWriter** writer) {
  const SegmentKind kind = KindOf(lane);
  const size_t slot = static_cast<size_t>(lane == Lane::kTombstone ? Lane::kIncrement : lane);
  if (writers_[slot] == nullptr) {
    SegmentHeader header = header_;
    header.kind = kind;
    file_names_[slot] = Concat(file_prefix_, "-", SegmentKindName(kind), ".acp");
    ADAPTCP_RETURN_IF_ERROR(SegmentWriter::Open(
        file_system_, Concat(directory_, "/", file_names_[slot]), header, &writers_[slot]));
  }
  *writer = writers_[slot].get();
  return Status::OK();
}

Status Cut::FinishWriting(std::vector<WrittenSegment>* segments) {
  {
    MutexLock lock(&mu_);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      for (auto& block : open_[lane]) {
        // A block whose rows all turned out to be tombstones is empty.
        if (block->rows() > 0) {
          Enqueue(static_cast<Lane>(lane), std::move(block));
        } else {
          pool_->Release(std::move(block));
        }
      }
      open_[lane].clear();
    }
    last_block_queued_ = true;
    work_.Signal();
  }
  writer_thread_.join();
  Status result = status();
  for (size_t slot = 0; slot < kLanes; ++slot) {
    if (writers_[slot] == nullptr) continue;
    if (result.ok()) {
      WrittenSegment segment;
      segment.file_name = file_names_[slot];
      segment.kind = KindOf(static_cast<Lane>(slot));
      result.Update(writers_[slot]->Finish(&segment.summary));
      segments->push_back(std::move(segment));
    }
    writers_[slot].reset();
  }
  if (!result.ok()) {
    for (const WrittenSegment& segment : *segments) {
      // Best effort: what stays behind is garbage that the next collection removes.
      (void)file_system_->DeleteFile(Concat(directory_, "/", segment.file_name)).ok();
    }
    segments->clear();
  }
  return result;
}

}  // namespace adaptcp
