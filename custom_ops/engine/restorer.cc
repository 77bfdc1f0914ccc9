// SPDX-License-Identifier: Apache-2.0
// Key pass and value pass of a restore, over all shards at once.

#include "custom_ops/engine/restorer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "custom_ops/engine/parallel_for.h"
#include "custom_ops/engine/segment_reader.h"

namespace adaptcp {
namespace {

// A segment, with the rows that are current and where its tables are attached.
struct OpenSegment {
  std::unique_ptr<SegmentReader> reader;
  SegmentKind kind;
  // Per table of the segment its number in a shard; kNotWanted if it is not to be loaded.
  std::vector<size_t> tables;
  std::vector<std::vector<bool>> live;  // per block; empty when no row is
};
constexpr size_t kNotWanted = ~size_t{0};

// A chain of increments may have more files than a process may have open.
constexpr size_t kMaxOpenFiles = 256;

using BlockNumber = std::pair<OpenSegment*, size_t>;

// Those rows of a key block, without columns.
RowBlock Select(const RowBlock& block, const std::vector<size_t>& rows) {
  RowBlock selected;
  for (size_t i : rows) {
    if (!block.keys.empty()) selected.keys.push_back(block.keys[i]);
    if (!block.string_keys.empty()) selected.string_keys.push_back(block.string_keys[i]);
    selected.last_updated.push_back(block.last_updated[i]);
    selected.rates.push_back(block.rates[i]);
    selected.flags.push_back(block.flags[i]);
  }
  return selected;
}

class Restorer {
 public:
  Restorer(const std::vector<TableGroup*>& shards, FileSystem* file_system,
           const RestoreOptions& options)
      : file_system_(file_system), options_(options) {
    for (TableGroup* shard : shards) shards_.push_back({shard, shard->tables()});
  }

  Status Run(RestoreResult* result) {
    ADAPTCP_RETURN_IF_ERROR(CheckShards());
    segments_.resize(options_.newest_first.size());
    ADAPTCP_RETURN_IF_ERROR(ParallelFor(segments_.size(), options_.threads, [&](size_t i) {
      return Open(options_.newest_first[i], &segments_[i]);
    }));
    const size_t rows_per_shard = FewestRows() / shards_.size();
    for (const Shard& shard : shards_) {
      ADAPTCP_RETURN_IF_ERROR(shard.group->StartRestore(options_.interval, rows_per_shard));
    }
    ADAPTCP_RETURN_IF_ERROR(ReadKeys());
    ADAPTCP_RETURN_IF_ERROR(ReadValues());
    for (const Shard& shard : shards_) shard.group->FinishRestore();
    result->rows = rows_;
    result->stale_rows = stale_rows_;
    result->bytes_read = bytes_read_;
    result->tables_without_rows = TablesWithoutRows();
    return Status::OK();
  }

 private:
  struct Shard {
    TableGroup* group;
    std::vector<Table*> tables;
  };

  Status CheckShards() const;
  Status Open(const RestoreFile& file, OpenSegment* segment) const;
  Status CheckHeader(const RestoreFile& file, const SegmentHeader& header) const;
  Status MapTables(const std::string& path, OpenSegment* segment) const;
  size_t FewestRows() const;
  Status ReadKeys();
  Status ReadKeyBlock(OpenSegment* segment, size_t block);
  Status ReadValues();
  Status LoadBlock(const OpenSegment& segment, size_t block);
  Status LoadTable(const OpenSegment& segment, size_t block, size_t table, const RowBlock& rows,
                   const std::vector<std::vector<size_t>>& by_shard);
  // The rows of the block that belong to each shard, of those for which `wanted` is true.
  Status Partition(const RowBlock& block, const std::vector<bool>& wanted,
                   std::vector<std::vector<size_t>>* by_shard) const;
  std::vector<std::string> TablesWithoutRows() const;

  FileSystem* const file_system_;
  const RestoreOptions& options_;
  std::vector<Shard> shards_;
  std::vector<OpenSegment> segments_;
  std::atomic<uint64_t> rows_{0};
  std::atomic<uint64_t> stale_rows_{0};
  std::atomic<uint64_t> bytes_read_{0};
};

Status Restorer::CheckShards() const {
  for (size_t s = 0; s < shards_.size(); ++s) {
    const TableGroupOptions& shard = shards_[s].group->options();
    if (shard.name != shards_[0].group->options().name || shard.shard != s ||
        shard.num_shards != shards_.size()) {
      return InvalidArgument("expected all shards of group '", shards_[0].group->options().name,
                             "' in order, received shard ", shard.shard, " of ", shard.num_shards,
                             " of group '", shard.name, "' as number ", s, " of ", shards_.size());
    }
    const auto same = [](const Table* a, const Table* b) {
      return a->spec().name == b->spec().name && a->spec().dtype == b->spec().dtype &&
             a->spec().dim == b->spec().dim;
    };
    const std::vector<Table*>& first = shards_[0].tables;
    const std::vector<Table*>& tables = shards_[s].tables;
    if (!std::equal(first.begin(), first.end(), tables.begin(), tables.end(), same)) {
      return FailedPrecondition("group '", shard.name, "': shard ", s,
                                " has other tables than shard 0; let every slot be made first");
    }
  }
  return Status::OK();
}

Status Restorer::Open(const RestoreFile& file, OpenSegment* segment) const {
  segment->kind = file.kind;
  ADAPTCP_RETURN_IF_ERROR(SegmentReader::Open(file_system_, file.path, &segment->reader));
  const SegmentReader& reader = *segment->reader;
  if (reader.bytes() != file.bytes || reader.footer_crc() != file.footer_crc) {
    return DataLoss(file.path, ": not the segment that the manifest names; expected ", file.bytes,
                    " bytes with footer checksum ", file.footer_crc, ", found ", reader.bytes(),
                    " bytes with ", reader.footer_crc());
  }
  ADAPTCP_RETURN_IF_ERROR(CheckHeader(file, reader.header()));
  ADAPTCP_RETURN_IF_ERROR(MapTables(file.path, segment));
  segment->live.resize(reader.num_blocks());
  if (options_.newest_first.size() > kMaxOpenFiles) segment->reader->CloseFile();
  return Status::OK();
}

Status Restorer::CheckHeader(const RestoreFile& file, const SegmentHeader& header) const {
  const TableGroupOptions& expected = shards_[0].group->options();
  if (header.group != expected.name || header.shard != file.shard ||
      header.num_shards != options_.saved_shards || header.key_type != expected.key_type) {
    return InvalidArgument(file.path, ": expected rows of group '", expected.name, "' shard ",
                           file.shard, " of ", options_.saved_shards, " with ",
                           KeyTypeName(expected.key_type), " keys, found group '", header.group,
                           "' shard ", header.shard, " of ", header.num_shards, " with ",
                           KeyTypeName(header.key_type), " keys");
  }
  if (header.kind != file.kind || header.interval != file.interval) {
    return DataLoss(file.path, ": expected the ", SegmentKindName(file.kind), " of interval ",
                    file.interval, ", found the ", SegmentKindName(header.kind), " of interval ",
                    header.interval);
  }
  return Status::OK();
}

Status Restorer::MapTables(const std::string& path, OpenSegment* segment) const {
  const std::vector<Table*>& tables = shards_[0].tables;
  for (const TableSpec& saved : segment->reader->header().tables) {
    if (!options_.slots && !segment->tables.empty()) {
      segment->tables.push_back(kNotWanted);
      continue;
    }
    const auto it = std::find_if(tables.begin(), tables.end(), [&saved](const Table* table) {
      return table->spec().name == saved.name;
    });
    if (it == tables.end()) {
      return InvalidArgument(path, ": table '", saved.name, "' of group '",
                             shards_[0].group->options().name,
                             "' was saved, but the model has none of that name; use the optimizer "
                             "that the checkpoint was made with");
    }
    const TableSpec& spec = (*it)->spec();
    if (spec.dtype != saved.dtype || spec.dim != saved.dim) {
      return InvalidArgument(path, ": table '", saved.name, "' was saved as ", saved.dtype, " x ",
                             saved.dim, ", the model has ", spec.dtype, " x ", spec.dim);
    }
    segment->tables.push_back(it - tables.begin());
  }
  return Status::OK();
}

// How many rows there are at least: those of one cut.
size_t Restorer::FewestRows() const {
  size_t most = 0;
  size_t rows = 0;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const RestoreFile& file = options_.newest_first[i];
    const bool same_cut = i > 0 && file.interval == options_.newest_first[i - 1].interval &&
                          file.kind == options_.newest_first[i - 1].kind;
    rows = (same_cut ? rows : 0) + segments_[i].reader->rows();
    most = std::max(most, rows);
  }
  return most;
}

Status Restorer::ReadKeys() {
  // A key has one shard, so segments of one kind and interval hold different keys: their order
  // among each other does not matter.
  for (size_t begin = 0, end; begin < segments_.size(); begin = end) {
    const RestoreFile& first = options_.newest_first[begin];
    std::vector<BlockNumber> blocks;
    for (end = begin; end < segments_.size(); ++end) {
      const RestoreFile& file = options_.newest_first[end];
      if (file.kind != first.kind || file.interval != first.interval) break;
      OpenSegment* const segment = &segments_[end];
      for (size_t b = 0; b < segment->live.size(); ++b) blocks.emplace_back(segment, b);
    }
    ADAPTCP_RETURN_IF_ERROR(ParallelFor(blocks.size(), options_.threads, [&](size_t i) {
      return ReadKeyBlock(blocks[i].first, blocks[i].second);
    }));
  }
  return Status::OK();
}

Status Restorer::ReadKeyBlock(OpenSegment* segment, size_t b) {
  RowBlock block;
  ADAPTCP_RETURN_IF_ERROR(segment->reader->ReadKeys(b, &block));
  bytes_read_ += segment->reader->block(b).keys.length;
  std::vector<std::vector<size_t>> by_shard;
  ADAPTCP_RETURN_IF_ERROR(Partition(block, std::vector<bool>(block.rows(), true), &by_shard));
  std::vector<bool> live(block.rows(), false);
  size_t current = 0;
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (by_shard[s].empty()) continue;
    std::vector<uint8_t> live_here;
    RowBlock selected;
    const bool all = by_shard[s].size() == block.rows();
    if (!all) selected = Select(block, by_shard[s]);
    const Status status =
        shards_[s].group->RestoreRows(all ? block : selected, segment->kind, &live_here);
    if (!status.ok()) {
      return Status(status.code(), Concat(segment->reader->path(), ": ", status.message()));
    }
    for (size_t i = 0; i < live_here.size(); ++i) {
      live[by_shard[s][i]] = live_here[i] != 0;
      current += live_here[i];
    }
  }
  rows_ += current;
  if (!segment->reader->block(b).tombstones) stale_rows_ += block.rows() - current;
  if (current > 0) segment->live[b] = std::move(live);
  return Status::OK();
}

Status Restorer::Partition(const RowBlock& block, const std::vector<bool>& wanted,
                           std::vector<std::vector<size_t>>* by_shard) const {
  std::vector<int32_t> shard(block.rows(), 0);
  if (shards_.size() > 1) ADAPTCP_RETURN_IF_ERROR(options_.partition(block, &shard));
  by_shard->assign(shards_.size(), {});
  for (size_t i = 0; i < block.rows(); ++i) {
    if (!wanted[i]) continue;
    if (shard[i] < 0 || static_cast<size_t>(shard[i]) >= shards_.size()) {
      return InvalidArgument("partition function of group '", shards_[0].group->options().name,
                             "': expected shards from 0 to ", shards_.size() - 1, ", received ",
                             shard[i]);
    }
    (*by_shard)[shard[i]].push_back(i);
  }
  return Status::OK();
}

Status Restorer::ReadValues() {
  std::vector<BlockNumber> blocks;
  for (OpenSegment& segment : segments_) {
    for (size_t b = 0; b < segment.live.size(); ++b) {
      if (!segment.live[b].empty()) blocks.emplace_back(&segment, b);
    }
  }
  return ParallelFor(blocks.size(), options_.threads,
                     [&](size_t i) { return LoadBlock(*blocks[i].first, blocks[i].second); });
}

Status Restorer::LoadBlock(const OpenSegment& segment, size_t b) {
  RowBlock block;
  ADAPTCP_RETURN_IF_ERROR(segment.reader->ReadKeys(b, &block));
  std::vector<std::vector<size_t>> by_shard;
  ADAPTCP_RETURN_IF_ERROR(Partition(block, segment.live[b], &by_shard));
  for (size_t t = 0; t < segment.tables.size(); ++t) {
    if (segment.tables[t] == kNotWanted) continue;
    ADAPTCP_RETURN_IF_ERROR(LoadTable(segment, b, t, block, by_shard));
  }
  for (size_t s = 0; s < shards_.size(); ++s) shards_[s].group->AddRestoredRows(by_shard[s].size());
  return Status::OK();
}

Status Restorer::LoadTable(const OpenSegment& segment, size_t b, size_t t, const RowBlock& block,
                           const std::vector<std::vector<size_t>>& by_shard) {
  const TableColumn& column = block.columns[t];
  std::vector<char> values;
  ADAPTCP_RETURN_IF_ERROR(segment.reader->ReadValues(b, t, &values));
  bytes_read_ += segment.reader->block(b).values[t].length;
  std::vector<char> gathered;
  for (size_t s = 0; s < shards_.size(); ++s) {
    // Rows that are stale, of other shards or that this table did not hold are left out.
    std::vector<size_t> rows;
    for (size_t i : by_shard[s]) {
      if (column.present[i]) rows.push_back(i);
    }
    if (rows.empty()) continue;
    const bool all = rows.size() == block.rows();
    RowBlock selected;
    if (!all) selected = Select(block, rows);
    const std::vector<int64_t> keys = shards_[s].group->KeysOf(all ? block : selected);
    if (!all) {
      gathered.resize(rows.size() * column.row_bytes);
      for (size_t n = 0; n < rows.size(); ++n) {
        std::memcpy(&gathered[n * column.row_bytes], &values[rows[n] * column.row_bytes],
                    column.row_bytes);
      }
    }
    Table* const table = shards_[s].tables[segment.tables[t]];
    ADAPTCP_RETURN_IF_ERROR(
        table->Write(keys.data(), keys.size(), all ? values.data() : gathered.data()));
  }
  return Status::OK();
}

std::vector<std::string> Restorer::TablesWithoutRows() const {
  std::vector<std::string> names;
  if (rows_ == 0) return names;
  for (size_t t = 0; t < shards_[0].tables.size(); ++t) {
    const bool loaded =
        std::any_of(segments_.begin(), segments_.end(), [t](const OpenSegment& segment) {
          return std::find(segment.tables.begin(), segment.tables.end(), t) != segment.tables.end();
        });
    if (!loaded) names.push_back(shards_[0].tables[t]->spec().name);
  }
  return names;
}

}  // namespace

Status Restore(const std::vector<TableGroup*>& shards, FileSystem* file_system,
               const RestoreOptions& options, RestoreResult* result) {
  return Restorer(shards, file_system, options).Run(result);
}

}  // namespace adaptcp
