// SPDX-License-Identifier: Apache-2.0
// Key pass, then gathering of the current rows into larger blocks.

#include "custom_ops/engine/compactor.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "custom_ops/base/mutex.h"
#include "custom_ops/engine/block_pool.h"
#include "custom_ops/engine/parallel_for.h"
#include "custom_ops/engine/segment_writer.h"

namespace adaptcp {
namespace {

using BlockNumber = std::pair<size_t, size_t>;  // segment, block
// Per row of a block whether it is current; empty when none is.
using Live = std::vector<bool>;

// One segment under construction.
struct Output {
  std::string file_name;
  std::unique_ptr<SegmentWriter> writer;
  RowBlock block;
};

class Compactor {
 public:
  Compactor(FileSystem* files, const CompactOptions& options, const std::string& directory,
            const std::string& file_prefix)
      : files_(files),
        options_(options),
        path_prefix_(Concat(directory, "/")),
        file_prefix_(file_prefix),
        tracker_(options.group, BlockBudget::Process(), UpdateLogBudget::Process()) {}

  Status Run(CompactResult* result) {
    ADAPTCP_RETURN_IF_ERROR(chain_.Open(
        files_, {options_.group.name, options_.group.num_shards, options_.group.key_type},
        options_.newest_first, options_.threads));
    ADAPTCP_RETURN_IF_ERROR(MakeHeader());
    ADAPTCP_RETURN_IF_ERROR(tracker_.StartRestore(options_.interval, chain_.FewestRows()));
    ADAPTCP_RETURN_IF_ERROR(ReadKeys());
    ADAPTCP_RETURN_IF_ERROR(CopyLive());
    ADAPTCP_RETURN_IF_ERROR(Finish(&result->segments));
    result->rows = rows_;
    result->stale_rows = stale_rows_;
    result->bytes_read = bytes_read_;
    return Status::OK();
  }

 private:
  Status MakeHeader();
  // Finds the table among those of the base, or adds it.
  Status MapTable(const std::string& path, const TableSpec& saved, size_t* number);
  // Finds out which rows are current, in the newest segments first.
  Status ReadKeys();
  Status ReadKeyBlock(size_t segment, size_t block);
  // Copies the blocks that have a current row.
  Status CopyLive();
  Status CopyBlock(size_t segment, size_t block);
  Status AppendRows(size_t segment, const RowBlock& block, const std::vector<size_t>& rows,
                    Output* output);
  Status Flush(Output* output);
  // An output that no thread uses, or a new one.
  Status TakeOutput(std::unique_ptr<Output>* output) TF_LOCKS_EXCLUDED(mu_);
  void GiveBack(std::unique_ptr<Output> output) TF_LOCKS_EXCLUDED(mu_);
  Status Finish(std::vector<WrittenSegment>* segments) TF_LOCKS_EXCLUDED(mu_);
  RowBlock EmptyBlock() const;

  FileSystem* const files_;
  const CompactOptions& options_;
  const std::string path_prefix_;
  const std::string file_prefix_;
  // Of it only the rows it knows; it has no tables.
  TableGroup tracker_;
  SegmentChain chain_;
  SegmentHeader header_;
  size_t block_rows_ = 0;
  // Per segment, per block of it.
  std::vector<std::vector<Live>> live_;
  // Per segment, per table of it, its number among those of the base.
  std::vector<std::vector<size_t>> tables_of_;

  std::atomic<uint64_t> rows_{0};
  std::atomic<uint64_t> stale_rows_{0};
  std::atomic<uint64_t> bytes_read_{0};

  Mutex mu_;
  std::vector<std::unique_ptr<Output>> idle_ TF_GUARDED_BY(mu_);
  size_t num_outputs_ TF_GUARDED_BY(mu_) = 0;
};

Status Compactor::MakeHeader() {
  header_.kind = SegmentKind::kBase;
  header_.interval = options_.interval;
  header_.shard = options_.group.shard;
  header_.num_shards = options_.group.num_shards;
  header_.key_type = options_.group.key_type;
  header_.group = options_.group.name;
  for (size_t s = 0; s < chain_.size(); ++s) {
    const SegmentReader& reader = chain_.reader(s);
    std::vector<size_t> numbers;
    for (size_t t = 0; t < reader.header().tables.size(); ++t) {
      if (reader.header().EncodingOf(t) != Encoding::kRaw) {
        return InvalidArgument(reader.path(), ": expected rows stored as they are, found ",
                               EncodingName(reader.header().EncodingOf(t)),
                               "; a copy would not be the same");
      }
      numbers.emplace_back();
      ADAPTCP_RETURN_IF_ERROR(MapTable(reader.path(), reader.header().tables[t], &numbers.back()));
    }
    tables_of_.push_back(std::move(numbers));
  }
  std::vector<uint32_t> row_bytes;
  for (const TableSpec& table : header_.tables) row_bytes.push_back(table.row_bytes);
  block_rows_ = RowsPerBlock(row_bytes);
  return Status::OK();
}

Status Compactor::MapTable(const std::string& path, const TableSpec& saved, size_t* number) {
  std::vector<TableSpec>& tables = header_.tables;
  const auto it = std::find_if(tables.begin(), tables.end(),
                               [&saved](const TableSpec& t) { return t.name == saved.name; });
  *number = it - tables.begin();
  if (it == tables.end()) {
    tables.push_back(saved);
  } else if (it->dtype != saved.dtype || it->dim != saved.dim) {
    return InvalidArgument(path, ": table '", saved.name, "' was saved as ", saved.dtype, " x ",
                           saved.dim, ", and later as ", it->dtype, " x ", it->dim);
  }
  return Status::OK();
}

Status Compactor::ReadKeys() {
  live_.resize(chain_.size());
  for (size_t begin = 0, end; begin < chain_.size(); begin = end) {
    // Side by side those of one cut and kind: a key has one shard, and so stands in one of them.
    std::vector<BlockNumber> blocks;
    for (end = begin; end < chain_.size() && chain_.SameCut(end, begin); ++end) {
      live_[end].resize(chain_.reader(end).num_blocks());
      for (size_t b = 0; b < live_[end].size(); ++b) blocks.emplace_back(end, b);
    }
    ADAPTCP_RETURN_IF_ERROR(ParallelFor(blocks.size(), options_.threads, [&](size_t i) {
      return ReadKeyBlock(blocks[i].first, blocks[i].second);
    }));
  }
  return Status::OK();
}

Status Compactor::CopyLive() {
  std::vector<BlockNumber> blocks;
  for (size_t s = 0; s < live_.size(); ++s) {
    for (size_t b = 0; b < live_[s].size(); ++b) {
      if (!live_[s][b].empty()) blocks.emplace_back(s, b);
    }
  }
  return ParallelFor(blocks.size(), options_.threads,
                     [&](size_t i) { return CopyBlock(blocks[i].first, blocks[i].second); });
}

Status Compactor::ReadKeyBlock(size_t segment, size_t b) {
  const SegmentReader& reader = chain_.reader(segment);
  RowBlock block;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadKeys(b, &block));
  bytes_read_ += reader.block(b).keys.length;
  std::vector<uint8_t> current;
  const Status status = tracker_.RestoreRows(block, chain_.kind(segment), &current);
  if (!status.ok()) return Status(status.code(), Concat(reader.path(), ": ", status.message()));
  const size_t n = std::count(current.begin(), current.end(), 1);
  rows_ += n;
  if (!reader.block(b).tombstones) stale_rows_ += block.rows() - n;
  if (n > 0) live_[segment][b].assign(current.begin(), current.end());
  return Status::OK();
}

Status Compactor::CopyBlock(size_t segment, size_t b) {
  const SegmentReader& reader = chain_.reader(segment);
  RowBlock block;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadKeys(b, &block));
  BlockValues values;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadValues(b, block.columns.size(), &values));
  for (size_t t = 0; t < block.columns.size(); ++t) {
    const size_t bytes = block.rows() * reader.header().tables[t].row_bytes;
    block.columns[t].values.assign(values.rows[t], values.rows[t] + bytes);
    bytes_read_ += reader.block(b).values[t].length;
  }
  std::vector<size_t> rows;
  for (size_t i = 0; i < block.rows(); ++i) {
    if (live_[segment][b][i]) rows.push_back(i);
  }
  std::unique_ptr<Output> output;
  ADAPTCP_RETURN_IF_ERROR(TakeOutput(&output));
  const Status status = AppendRows(segment, block, rows, output.get());
  GiveBack(std::move(output));
  return status;
}

Status Compactor::AppendRows(size_t segment, const RowBlock& from, const std::vector<size_t>& rows,
                             Output* output) {
  for (size_t i : rows) {
    RowBlock& to = output->block;
    if (from.keys.empty()) {
      to.string_keys.push_back(from.string_keys[i]);
    } else {
      to.keys.push_back(from.keys[i]);
    }
    to.last_updated.push_back(from.last_updated[i]);
    to.rates.push_back(from.rates[i]);
    to.flags.push_back(from.flags[i]);
    for (size_t t = 0; t < from.columns.size(); ++t) {
      const TableColumn& source = from.columns[t];
      TableColumn& target = to.columns[tables_of_[segment][t]];
      const char* value = source.values.data() + i * source.row_bytes;
      target.values.insert(target.values.end(), value, value + source.row_bytes);
      target.present.push_back(source.present[i]);
    }
    // Tables that this segment does not know.
    for (TableColumn& target : to.columns) {
      target.values.resize(to.rows() * target.row_bytes);
      target.present.resize(to.rows());
    }
    if (to.rows() >= block_rows_) ADAPTCP_RETURN_IF_ERROR(Flush(output));
  }
  return Status::OK();
}

Status Compactor::Flush(Output* output) {
  ADAPTCP_RETURN_IF_ERROR(output->writer->Append(output->block));
  output->block = EmptyBlock();
  return Status::OK();
}

RowBlock Compactor::EmptyBlock() const {
  RowBlock block;
  for (const TableSpec& table : header_.tables) {
    block.columns.emplace_back();
    block.columns.back().row_bytes = table.row_bytes;
  }
  return block;
}

Status Compactor::TakeOutput(std::unique_ptr<Output>* output) {
  size_t number;
  {
    MutexLock lock(&mu_);
    if (!idle_.empty()) {
      *output = std::move(idle_.back());
      idle_.pop_back();
      return Status::OK();
    }
    number = num_outputs_++;
  }
  auto made = std::make_unique<Output>();
  made->file_name = number == 0 ? Concat(file_prefix_, "-base.acp")
                                : Concat(file_prefix_, "-base-p", number, ".acp");
  made->block = EmptyBlock();
  ADAPTCP_RETURN_IF_ERROR(
      SegmentWriter::Open(files_, path_prefix_ + made->file_name, header_, &made->writer));
  *output = std::move(made);
  return Status::OK();
}

void Compactor::GiveBack(std::unique_ptr<Output> output) {
  MutexLock lock(&mu_);
  idle_.push_back(std::move(output));
}

Status Compactor::Finish(std::vector<WrittenSegment>* segments) {
  MutexLock lock(&mu_);
  for (std::unique_ptr<Output>& output : idle_) ADAPTCP_RETURN_IF_ERROR(Flush(output.get()));
  std::vector<WrittenSegment> finished;
  Status status;
  for (std::unique_ptr<Output>& output : idle_) {
    SegmentSummary summary;
    status = output->writer->Finish(&summary);
    if (!status.ok()) break;
    finished.push_back({output->file_name, SegmentKind::kBase, summary});
  }
  if (!status.ok()) {
    for (const WrittenSegment& segment : finished) {
      // What cannot be deleted is garbage that no manifest names.
      static_cast<void>(files_->DeleteFile(path_prefix_ + segment.file_name));
    }
    return status;
  }
  *segments = std::move(finished);
  return Status::OK();
}

}  // namespace

Status Compact(FileSystem* files, const CompactOptions& options, const std::string& directory,
               const std::string& file_prefix, CompactResult* result) {
  return Compactor(files, options, directory, file_prefix).Run(result);
}

}  // namespace adaptcp
