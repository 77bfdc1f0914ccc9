// SPDX-License-Identifier: Apache-2.0
// Reads blocks by many streams, newest first, and loads them into all shards at once.

#include "custom_ops/engine/restorer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "custom_ops/engine/parallel_for.h"
#include "custom_ops/engine/restore_schedule.h"
#include "custom_ops/engine/segment_reader.h"

namespace adaptcp {
namespace {

// Blocks that all threads of a restore may hold together, for each thread that reads. Blocks have
// about a megabyte of values unless their rows are very long.
constexpr size_t kBytesPerReader = size_t{8} << 20;

// A block of the chain. Cuts are numbered from the newest.
struct ChainBlock {
  size_t segment;
  size_t number;
  size_t cut;
};

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

// What a block takes at most while it is loaded: the key record and its rows, the value records,
// and rows decoded or gathered from them.
size_t BytesInMemory(const SegmentReader& reader, size_t b) {
  const BlockIndexEntry& entry = reader.block(b);
  size_t bytes = 3 * entry.keys.length;
  for (size_t t = 0; t < entry.values.size(); ++t) {
    bytes += entry.values[t].length + size_t{entry.rows} * reader.header().tables[t].row_bytes;
  }
  return bytes;
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
    const TableGroupOptions& group = shards_[0].group->options();
    ADAPTCP_RETURN_IF_ERROR(chain_.Open(file_system_,
                                        {group.name, options_.saved_shards, group.key_type},
                                        options_.newest_first, options_.read_threads));
    for (size_t s = 0; s < chain_.size(); ++s) ADAPTCP_RETURN_IF_ERROR(MapTables(s));
    const size_t rows_per_shard = chain_.FewestRows() / shards_.size();
    for (const Shard& shard : shards_) {
      ADAPTCP_RETURN_IF_ERROR(shard.group->StartRestore(options_.interval, rows_per_shard));
    }
    ADAPTCP_RETURN_IF_ERROR(LoadBlocks());
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
  // Finds out where the tables of the next segment, number `segment`, are attached.
  Status MapTables(size_t segment);
  Status LoadBlocks();
  Status LoadBlock(const ChainBlock& at, RestoreSchedule* schedule);
  // Registers the rows of a block and sets those of them that are current, by shard.
  Status Register(const ChainBlock& at, const RowBlock& block,
                  std::vector<std::vector<size_t>>* by_shard);
  // The rows of the block that belong to each shard.
  Status Partition(const RowBlock& block, std::vector<std::vector<size_t>>* by_shard) const;
  Status InsertRows(const ChainBlock& at, const RowBlock& block, const BlockValues& values,
                    const std::vector<std::vector<size_t>>& by_shard);
  Status InsertInto(const Shard& shard, size_t table, const RowBlock& block,
                    const TableColumn& column, const char* values,
                    const std::vector<size_t>& candidates);
  std::vector<std::string> TablesWithoutRows() const;

  FileSystem* const file_system_;
  const RestoreOptions& options_;
  std::vector<Shard> shards_;
  SegmentChain chain_;
  // Per segment, of those of its tables that are to be loaded, which come first, the numbers in a
  // shard.
  std::vector<std::vector<size_t>> tables_of_;
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

Status Restorer::MapTables(size_t segment) {
  const std::string& path = chain_.reader(segment).path();
  const std::vector<Table*>& tables = shards_[0].tables;
  std::vector<size_t> numbers;
  for (const TableSpec& saved : chain_.reader(segment).header().tables) {
    if (!options_.slots && !numbers.empty()) break;
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
    numbers.push_back(it - tables.begin());
  }
  tables_of_.push_back(std::move(numbers));
  return Status::OK();
}

Status Restorer::LoadBlocks() {
  std::vector<ChainBlock> blocks;
  std::vector<size_t> blocks_of_cuts;
  for (size_t s = 0; s < chain_.size(); ++s) {
    if (s == 0 || !chain_.SameCut(s - 1, s)) blocks_of_cuts.push_back(0);
    for (size_t b = 0; b < chain_.reader(s).num_blocks(); ++b) {
      blocks.push_back({s, b, blocks_of_cuts.size() - 1});
      ++blocks_of_cuts.back();
    }
  }
  RestoreSchedule schedule(blocks_of_cuts, kBytesPerReader * options_.read_threads,
                           options_.threads);
  return ParallelFor(blocks.size(), options_.read_threads, [&](size_t i) {
    const size_t bytes = BytesInMemory(chain_.reader(blocks[i].segment), blocks[i].number);
    Status status = schedule.Admit(i, bytes);
    if (status.ok()) {
      status = LoadBlock(blocks[i], &schedule);
      schedule.Release(bytes);
    }
    return status.ok() ? status : schedule.Fail(status);
  });
}

// Keys are read at once, but registered only after those of all newer cuts: then it is known which
// rows are current, and whether the block's values are needed.
Status Restorer::LoadBlock(const ChainBlock& at, RestoreSchedule* schedule) {
  const SegmentReader& reader = chain_.reader(at.segment);
  RowBlock block;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadKeys(at.number, &block));
  bytes_read_ += reader.block(at.number).keys.length;
  std::vector<std::vector<size_t>> by_shard;
  ADAPTCP_RETURN_IF_ERROR(schedule->AwaitNewerThan(at.cut));
  {
    const WorkSlot slot(schedule);
    ADAPTCP_RETURN_IF_ERROR(slot.status());
    ADAPTCP_RETURN_IF_ERROR(Register(at, block, &by_shard));
  }
  schedule->BlockKnown(at.cut);
  const auto empty = [](const std::vector<size_t>& rows) { return rows.empty(); };
  if (std::all_of(by_shard.begin(), by_shard.end(), empty)) return Status::OK();
  BlockValues values;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadValues(at.number, tables_of_[at.segment].size(), &values));
  const WorkSlot slot(schedule);
  ADAPTCP_RETURN_IF_ERROR(slot.status());
  return InsertRows(at, block, values, by_shard);
}

Status Restorer::Register(const ChainBlock& at, const RowBlock& block,
                          std::vector<std::vector<size_t>>* by_shard) {
  ADAPTCP_RETURN_IF_ERROR(Partition(block, by_shard));
  size_t current = 0;
  for (size_t s = 0; s < shards_.size(); ++s) {
    std::vector<size_t>& rows = (*by_shard)[s];
    if (rows.empty()) continue;
    std::vector<uint8_t> live;
    RowBlock selected;
    const bool all = rows.size() == block.rows();
    if (!all) selected = Select(block, rows);
    const Status status =
        shards_[s].group->RestoreRows(all ? block : selected, chain_.kind(at.segment), &live);
    if (!status.ok()) {
      return Status(status.code(),
                    Concat(chain_.reader(at.segment).path(), ": ", status.message()));
    }
    size_t kept = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (live[i]) rows[kept++] = rows[i];
    }
    rows.resize(kept);
    current += kept;
  }
  rows_ += current;
  if (!chain_.reader(at.segment).block(at.number).tombstones) stale_rows_ += block.rows() - current;
  return Status::OK();
}

Status Restorer::Partition(const RowBlock& block,
                           std::vector<std::vector<size_t>>* by_shard) const {
  std::vector<int32_t> shard(block.rows(), 0);
  if (shards_.size() > 1) ADAPTCP_RETURN_IF_ERROR(options_.partition(block, &shard));
  by_shard->assign(shards_.size(), {});
  for (size_t i = 0; i < block.rows(); ++i) {
    if (shard[i] < 0 || static_cast<size_t>(shard[i]) >= shards_.size()) {
      return InvalidArgument("partition function of group '", shards_[0].group->options().name,
                             "': expected shards from 0 to ", shards_.size() - 1, ", received ",
                             shard[i]);
    }
    (*by_shard)[shard[i]].push_back(i);
  }
  return Status::OK();
}

Status Restorer::InsertRows(const ChainBlock& at, const RowBlock& block, const BlockValues& values,
                            const std::vector<std::vector<size_t>>& by_shard) {
  const std::vector<size_t>& tables = tables_of_[at.segment];
  for (size_t n = 0; n < tables.size(); ++n) {
    // A table takes one insert at a time, so threads begin with different ones.
    const size_t t = (at.number + n) % tables.size();
    bytes_read_ += chain_.reader(at.segment).block(at.number).values[t].length;
    for (size_t s = 0; s < shards_.size(); ++s) {
      ADAPTCP_RETURN_IF_ERROR(
          InsertInto(shards_[s], tables[t], block, block.columns[t], values.rows[t], by_shard[s]));
    }
  }
  for (size_t s = 0; s < shards_.size(); ++s) shards_[s].group->AddRestoredRows(by_shard[s].size());
  return Status::OK();
}

Status Restorer::InsertInto(const Shard& shard, size_t table, const RowBlock& block,
                            const TableColumn& column, const char* values,
                            const std::vector<size_t>& candidates) {
  // Rows that are stale, of other shards or that this table did not hold are left out.
  std::vector<size_t> rows;
  for (size_t i : candidates) {
    if (column.present[i]) rows.push_back(i);
  }
  if (rows.empty()) return Status::OK();
  const bool all = rows.size() == block.rows();
  RowBlock selected;
  std::vector<char> gathered;
  if (!all) {
    selected = Select(block, rows);
    gathered.resize(rows.size() * column.row_bytes);
    for (size_t n = 0; n < rows.size(); ++n) {
      std::memcpy(&gathered[n * column.row_bytes], &values[rows[n] * column.row_bytes],
                  column.row_bytes);
    }
  }
  const std::vector<int64_t> keys = shard.group->KeysOf(all ? block : selected);
  return shard.tables[table]->Write(keys.data(), keys.size(), all ? values : gathered.data());
}

std::vector<std::string> Restorer::TablesWithoutRows() const {
  std::vector<std::string> names;
  if (rows_ == 0) return names;
  for (size_t t = 0; t < shards_[0].tables.size(); ++t) {
    const bool loaded =
        std::any_of(tables_of_.begin(), tables_of_.end(), [t](const std::vector<size_t>& tables) {
          return std::find(tables.begin(), tables.end(), t) != tables.end();
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
