// SPDX-License-Identifier: Apache-2.0
// Key pass and value pass of a restore, over all shards at once.

#include "custom_ops/engine/restorer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "custom_ops/engine/segment_reader.h"

namespace adaptcp {
namespace {

constexpr size_t kNotWanted = ~size_t{0};

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
    const TableGroupOptions& group = shards_[0].group->options();
    ADAPTCP_RETURN_IF_ERROR(chain_.Open(file_system_,
                                        {group.name, options_.saved_shards, group.key_type},
                                        options_.newest_first, options_.threads));
    for (size_t s = 0; s < chain_.size(); ++s) ADAPTCP_RETURN_IF_ERROR(MapTables(s));
    const size_t rows_per_shard = chain_.FewestRows() / shards_.size();
    for (const Shard& shard : shards_) {
      ADAPTCP_RETURN_IF_ERROR(shard.group->StartRestore(options_.interval, rows_per_shard));
    }
    ADAPTCP_RETURN_IF_ERROR(chain_.ReadKeys(
        options_.threads, [this](size_t segment, size_t block, SegmentChain::Live* live) {
          return ReadKeyBlock(segment, block, live);
        }));
    ADAPTCP_RETURN_IF_ERROR(chain_.ReadLive(
        options_.threads, [this](size_t segment, size_t block, const SegmentChain::Live& live) {
          return LoadBlock(segment, block, live);
        }));
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
  Status ReadKeyBlock(size_t segment, size_t block, SegmentChain::Live* live);
  Status LoadBlock(size_t segment, size_t block, const SegmentChain::Live& live);
  Status LoadTable(size_t segment, size_t block, size_t table, const RowBlock& rows,
                   const std::vector<std::vector<size_t>>& by_shard);
  // The rows of the block that belong to each shard, of those for which `wanted` is true.
  Status Partition(const RowBlock& block, const std::vector<bool>& wanted,
                   std::vector<std::vector<size_t>>* by_shard) const;
  std::vector<std::string> TablesWithoutRows() const;

  FileSystem* const file_system_;
  const RestoreOptions& options_;
  std::vector<Shard> shards_;
  SegmentChain chain_;
  // Per segment, per table of it, its number in a shard; kNotWanted if it is not to be loaded.
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
    if (!options_.slots && !numbers.empty()) {
      numbers.push_back(kNotWanted);
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
    numbers.push_back(it - tables.begin());
  }
  tables_of_.push_back(std::move(numbers));
  return Status::OK();
}

Status Restorer::ReadKeyBlock(size_t segment, size_t b, SegmentChain::Live* live) {
  const SegmentReader& reader = chain_.reader(segment);
  RowBlock block;
  ADAPTCP_RETURN_IF_ERROR(reader.ReadKeys(b, &block));
  bytes_read_ += reader.block(b).keys.length;
  std::vector<std::vector<size_t>> by_shard;
  ADAPTCP_RETURN_IF_ERROR(Partition(block, std::vector<bool>(block.rows(), true), &by_shard));
  SegmentChain::Live current_rows(block.rows(), false);
  size_t current = 0;
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (by_shard[s].empty()) continue;
    std::vector<uint8_t> live_here;
    RowBlock selected;
    const bool all = by_shard[s].size() == block.rows();
    if (!all) selected = Select(block, by_shard[s]);
    const Status status =
        shards_[s].group->RestoreRows(all ? block : selected, chain_.kind(segment), &live_here);
    if (!status.ok()) {
      return Status(status.code(), Concat(reader.path(), ": ", status.message()));
    }
    for (size_t i = 0; i < live_here.size(); ++i) {
      current_rows[by_shard[s][i]] = live_here[i] != 0;
      current += live_here[i];
    }
  }
  rows_ += current;
  if (!reader.block(b).tombstones) stale_rows_ += block.rows() - current;
  if (current > 0) *live = std::move(current_rows);
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

Status Restorer::LoadBlock(size_t segment, size_t b, const SegmentChain::Live& live) {
  RowBlock block;
  ADAPTCP_RETURN_IF_ERROR(chain_.reader(segment).ReadKeys(b, &block));
  std::vector<std::vector<size_t>> by_shard;
  ADAPTCP_RETURN_IF_ERROR(Partition(block, live, &by_shard));
  for (size_t t = 0; t < tables_of_[segment].size(); ++t) {
    if (tables_of_[segment][t] == kNotWanted) continue;
    ADAPTCP_RETURN_IF_ERROR(LoadTable(segment, b, t, block, by_shard));
  }
  for (size_t s = 0; s < shards_.size(); ++s) shards_[s].group->AddRestoredRows(by_shard[s].size());
  return Status::OK();
}

Status Restorer::LoadTable(size_t segment, size_t b, size_t t, const RowBlock& block,
                           const std::vector<std::vector<size_t>>& by_shard) {
  const TableColumn& column = block.columns[t];
  std::vector<char> values;
  const SegmentReader& reader = chain_.reader(segment);
  ADAPTCP_RETURN_IF_ERROR(reader.ReadValues(b, t, &values));
  bytes_read_ += reader.block(b).values[t].length;
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
    Table* const table = shards_[s].tables[tables_of_[segment][t]];
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
