// SPDX-License-Identifier: Apache-2.0
// One cut in progress: collects saved rows in blocks and writes full blocks to segments.

#ifndef ADAPTCP_ENGINE_CUT_H_
#define ADAPTCP_ENGINE_CUT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/engine/block_pool.h"
#include "custom_ops/engine/key_batch.h"
#include "custom_ops/engine/row_tracker.h"
#include "custom_ops/engine/segment_writer.h"
#include "custom_ops/engine/table.h"
#include "custom_ops/engine/update_log.h"
#include "custom_ops/io/file_system.h"

namespace adaptcp {

// Where a saved row goes. Tombstones share the increment's segment, or are dropped from a base.
enum class Lane : uint8_t { kBase = 0, kIncrement = 1, kDifferential = 2, kTombstone = 3 };
constexpr size_t kLanes = 4;

struct CutOptions {
  uint32_t interval = 0;       // the newest interval that this cut closes
  bool base = false;           // save every live row
  double hot_threshold = 1.0;  // rows with at least this update rate are hot; above 1: all cold
  double hysteresis = 0.0;     // relative width of the band in which a row keeps its class
  double rate_half_life_intervals = kRateHalfLifeIntervals;  // of update rates, from this cut on
  Encoding encoding = Encoding::kRaw;                        // of the parameter's values
  Encoding slot_encoding = Encoding::kRaw;                   // of the slots'
};

struct WrittenSegment {
  std::string file_name;  // below the directory given to StartWriting
  SegmentKind kind;
  SegmentSummary summary;
};

// Counts of one cut, for logs and metrics.
struct CutCounts {
  uint64_t rows_hot = 0;
  uint64_t rows_cold = 0;  // of a base: all rows that are not hot
  uint64_t tombstones = 0;
  uint64_t rows_saved_on_update = 0;
  uint64_t rows_drained = 0;
  uint64_t rows_prefetched = 0;  // saved by threads that prepare input
  uint64_t stall_nanos = 0;      // training held up by saving or by waiting for a lock or a block
};

// Appenders on any thread take a block, fill it and give it back; writer threads write full blocks,
// each into segments of its own. Once writing failed, blocks are discarded so that nobody waits.
class Cut {
 public:
  using DirtyLists = std::array<KeyList, RowTracker::kStripes>;

  // The cut closes the intervals from `first_interval` to options.interval; `dirty` holds, per
  // stripe, the keys updated in them, and `inserts` the latest updates. `tables` are those whose
  // rows the cut holds; they and `pool` outlive the cut.
  Cut(const CutOptions& options, uint32_t first_interval, uint32_t tag, BlockPool* pool,
      std::vector<Table*> tables, DirtyLists dirty, TakenInserts inserts);
  ~Cut();
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;

  const CutOptions& options() const { return options_; }
  uint32_t first_interval() const { return first_interval_; }
  uint32_t tag() const { return tag_; }
  const std::vector<Table*>& tables() const { return tables_; }
  const KeyList& dirty(size_t stripe) const { return dirty_[stripe]; }
  size_t block_capacity() const { return pool_->capacity(); }

  // The newest insert that was not returned yet, until the next call; nullptr when there is none.
  // For the drain.
  const LoggedInsert* NextInsert() { return inserts_.Next(); }

  // A block of `lane` with room for `room` rows (at most block_capacity()). May wait for memory:
  // call it before taking a stripe's mutex.
  std::unique_ptr<RowBlock> TakeBlock(Lane lane, size_t room) TF_LOCKS_EXCLUDED(mu_);
  void GiveBackBlock(Lane lane, std::unique_ptr<RowBlock> block) TF_LOCKS_EXCLUDED(mu_);

  // From now on blocks take as much memory as they need, and nobody waits for any.
  void LiftMemoryBound() { pool_->StopWaiting(); }

  // Rows that are about to be updated: the drain saves them before others. Never waits; a hint that
  // gets lost costs only time.
  void AddUrgent(const KeyBatch& batch) TF_LOCKS_EXCLUDED(mu_);
  bool TakeUrgent(KeyBatch* batch) TF_LOCKS_EXCLUDED(mu_);

  // Rows that left the standing list for the increment of this cut: if the cut fails they must be
  // dirty again.
  void AddCooled(const std::vector<int64_t>& keys) TF_LOCKS_EXCLUDED(mu_);
  std::vector<int64_t> TakeCooled() TF_LOCKS_EXCLUDED(mu_);

  void AddCounts(const CutCounts& counts) TF_LOCKS_EXCLUDED(mu_);
  CutCounts counts() TF_LOCKS_EXCLUDED(mu_);

  // Starts at most so many writer threads; those after the first only when there is enough to
  // write and the system gives them. Without any the cut fails. `header` describes the group; kind,
  // interval and encodings are filled in. Segments are named `directory`/`file_prefix`-<kind>.acp,
  // those of the second writer and others `directory`/`file_prefix`-<kind>-p<number>.acp, and made
  // when their first block fills.
  void StartWriting(FileSystem* file_system, const std::string& directory,
                    const std::string& file_prefix, const SegmentHeader& header, size_t max_writers)
      TF_LOCKS_EXCLUDED(mu_);
  // Writes what is left and finishes the segments: durable on return. No block may be out. On
  // failure the files are deleted.
  Status FinishWriting(std::vector<WrittenSegment>* segments) TF_LOCKS_EXCLUDED(mu_);

  // Makes the cut fail: nothing more is written, and nobody waits for memory any more.
  void Fail(const Status& why) TF_LOCKS_EXCLUDED(mu_);
  // The first error so far.
  Status status() TF_LOCKS_EXCLUDED(mu_);

 private:
  static constexpr size_t kMaxUrgentBatches = 4;
  // Of a segment, before the next writer opens one: many small files are slow to write and to read.
  static constexpr size_t kLeastBlocks = 2;

  struct QueuedBlock {
    Lane lane;
    std::unique_ptr<RowBlock> block;
  };

  // A thread that writes, and its segments.
  struct Writer {
    size_t number;
    std::thread thread;
    // Per lane, that of tombstones apart. Used by the thread, and after it ended by FinishWriting.
    std::array<std::unique_ptr<SegmentWriter>, kLanes> segments;
    std::array<std::string, kLanes> file_names;
    std::vector<WrittenSegment> finished;
    // Guarded by the cut's mutex.
    std::deque<QueuedBlock> queue;
    CondVar work;
  };

  void Enqueue(Lane lane, std::unique_ptr<RowBlock> block) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HandOut(QueuedBlock queued) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The writer of the lane's next block; nullptr when no thread could be started at all, and the
  // cut has failed.
  Writer* NextWriter(Lane lane) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StopWriters() TF_LOCKS_EXCLUDED(mu_);
  void WriteLoop(Writer* writer) TF_LOCKS_EXCLUDED(mu_);
  Status WriteBlock(const QueuedBlock& queued, Writer* writer);
  Status OpenSegment(Lane lane, Writer* writer);
  // Makes the writer's segments durable, or deletes them if the cut failed.
  void FinishSegments(Writer* writer) TF_LOCKS_EXCLUDED(mu_);

  // Constant after construction.
  const CutOptions options_;
  const uint32_t first_interval_;
  const uint32_t tag_;
  BlockPool* const pool_;
  const std::vector<Table*> tables_;
  const DirtyLists dirty_;

  // Constant after StartWriting.
  FileSystem* file_system_ = nullptr;
  std::string directory_;
  std::string file_prefix_;
  SegmentHeader header_;

  // Used by the drain.
  TakenInserts inserts_;

  // Whether `urgent_` holds something, for a look without the mutex.
  std::atomic<bool> has_urgent_{false};

  Mutex mu_;
  size_t max_writers_ TF_GUARDED_BY(mu_) = 0;  // 0 before StartWriting
  // Full blocks from before StartWriting.
  std::deque<QueuedBlock> early_ TF_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Writer>> writers_ TF_GUARDED_BY(mu_);
  std::array<size_t, kLanes> blocks_queued_ TF_GUARDED_BY(mu_) = {};
  std::array<std::vector<std::unique_ptr<RowBlock>>, kLanes> open_ TF_GUARDED_BY(mu_);
  bool last_block_queued_ TF_GUARDED_BY(mu_) = false;
  Status status_ TF_GUARDED_BY(mu_);
  std::vector<int64_t> cooled_ TF_GUARDED_BY(mu_);
  std::deque<KeyBatch> urgent_ TF_GUARDED_BY(mu_);
  CutCounts counts_ TF_GUARDED_BY(mu_);
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_CUT_H_
