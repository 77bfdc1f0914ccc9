// SPDX-License-Identifier: Apache-2.0
// Block traffic between appenders and the writer thread.

#include "custom_ops/engine/cut.h"

#include <algorithm>
#include <utility>

#include "custom_ops/base/thread.h"

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

// The lane whose segment holds the blocks of `lane`.
Lane FileLane(Lane lane) { return lane == Lane::kTombstone ? Lane::kIncrement : lane; }

}  // namespace

Cut::Cut(const CutOptions& options, uint32_t first_interval, uint32_t tag, BlockPool* pool,
         std::vector<Table*> tables, DirtyLists dirty, TakenInserts inserts)
    : options_(options),
      first_interval_(first_interval),
      tag_(tag),
      pool_(pool),
      tables_(std::move(tables)),
      dirty_(std::move(dirty)),
      inserts_(std::move(inserts)) {}

Cut::~Cut() {
  Fail(Status(StatusCode::kCancelled, "the cut was given up"));
  StopWriters();
  MutexLock lock(&mu_);
  for (QueuedBlock& queued : early_) pool_->ReleaseFull(std::move(queued.block));
  for (auto& blocks : open_) {
    for (auto& block : blocks) pool_->Release(std::move(block));
  }
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
  if (max_writers_ == 0) {
    early_.push_back({lane, std::move(block)});
    return;
  }
  HandOut({lane, std::move(block)});
}

void Cut::HandOut(QueuedBlock queued) {
  Writer* const writer = NextWriter(queued.lane);
  if (writer == nullptr) {
    pool_->ReleaseFull(std::move(queued.block));
    return;
  }
  writer->queue.push_back(std::move(queued));
  writer->work.Signal();
}

Cut::Writer* Cut::NextWriter(Lane lane) {
  const size_t n = blocks_queued_[static_cast<size_t>(FileLane(lane))]++;
  // The first writers get their fewest blocks one after the other, then all take turns.
  const size_t number = n < kLeastBlocks * max_writers_ ? n / kLeastBlocks : n % max_writers_;
  while (writers_.size() <= number) {
    auto made = std::make_unique<Writer>();
    Writer* const writer = made.get();
    writer->number = writers_.size();
    const Status started = StartThread([this, writer] { WriteLoop(writer); }, &writer->thread);
    if (started.ok()) {
      writers_.push_back(std::move(made));
    } else if (writers_.empty()) {
      status_.Update(started);
      pool_->StopWaiting();
      return nullptr;
    } else {
      // Those that are there write all.
      max_writers_ = writers_.size();
      return writers_[n % max_writers_].get();
    }
  }
  return writers_[number].get();
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
                       const std::string& file_prefix, const SegmentHeader& header,
                       size_t max_writers) {
  file_system_ = file_system;
  directory_ = directory;
  file_prefix_ = file_prefix;
  header_ = header;
  header_.interval = options_.interval;
  header_.encoding = options_.encoding;
  header_.slot_encoding = options_.slot_encoding;
  MutexLock lock(&mu_);
  max_writers_ = std::max<size_t>(1, max_writers);
  for (QueuedBlock& queued : early_) HandOut(std::move(queued));
  early_.clear();
}

void Cut::StopWriters() {
  std::vector<Writer*> writers;
  {
    MutexLock lock(&mu_);
    last_block_queued_ = true;
    for (auto& writer : writers_) {
      writers.push_back(writer.get());
      writer->work.Signal();
    }
  }
  for (Writer* writer : writers) {
    if (writer->thread.joinable()) writer->thread.join();
  }
}

void Cut::WriteLoop(Writer* writer) {
  for (;;) {
    QueuedBlock queued;
    bool discard;
    {
      MutexLock lock(&mu_);
      while (writer->queue.empty() && !last_block_queued_) writer->work.Wait(&mu_);
      if (writer->queue.empty()) break;
      queued = std::move(writer->queue.front());
      writer->queue.pop_front();
      discard = !status_.ok();
    }
    const Status written = discard ? Status::OK() : WriteBlock(queued, writer);
    pool_->ReleaseFull(std::move(queued.block));
    if (!written.ok()) Fail(written);
  }
  FinishSegments(writer);
}

Status Cut::WriteBlock(const QueuedBlock& queued, Writer* writer) {
  const auto lane = static_cast<size_t>(FileLane(queued.lane));
  if (writer->segments[lane] == nullptr) ADAPTCP_RETURN_IF_ERROR(OpenSegment(queued.lane, writer));
  return writer->segments[lane]->Append(*queued.block);
}

Status Cut::OpenSegment(Lane lane, Writer* writer) {
  SegmentHeader header = header_;
  header.kind = KindOf(lane);
  const std::string part = writer->number == 0 ? "" : Concat("-p", writer->number);
  const auto slot = static_cast<size_t>(FileLane(lane));
  writer->file_names[slot] = Concat(file_prefix_, "-", SegmentKindName(header.kind), part, ".acp");
  return SegmentWriter::Open(file_system_, Concat(directory_, "/", writer->file_names[slot]),
                             header, &writer->segments[slot]);
}

void Cut::FinishSegments(Writer* writer) {
  for (size_t slot = 0; slot < kLanes; ++slot) {
    if (writer->segments[slot] == nullptr) continue;
    if (status().ok()) {
      WrittenSegment segment;
      segment.file_name = writer->file_names[slot];
      segment.kind = KindOf(static_cast<Lane>(slot));
      const Status finished = writer->segments[slot]->Finish(&segment.summary);
      if (finished.ok()) {
        writer->finished.push_back(std::move(segment));
      } else {
        Fail(finished);
      }
    }
    writer->segments[slot].reset();
  }
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
  }
  StopWriters();
  MutexLock lock(&mu_);
  for (auto& writer : writers_) {
    for (WrittenSegment& segment : writer->finished) {
      if (status_.ok()) {
        segments->push_back(std::move(segment));
      } else {
        // Best effort: what stays behind is garbage that the next collection removes.
        (void)file_system_->DeleteFile(Concat(directory_, "/", segment.file_name)).ok();
      }
    }
  }
  return status_;
}

}  // namespace adaptcp
