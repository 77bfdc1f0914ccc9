// SPDX-License-Identifier: Apache-2.0
// Key pass and value pass of a restore.

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

// A segment, with the attached table for each of its tables and the rows that are current.
struct OpenSegment {
  std::unique_ptr<SegmentReader> reader;
  SegmentKind kind;
  std::vector<Table*> tables;
  std::vector<std::vector<bool>> live;  // per block; empty when no row is
};

class Restorer {
 public:
  Restorer(TableGroup* group, FileSystem* file_system, const RestoreOptions& options)
      : group_(group), file_system_(file_system), options_(options), tables_(group->tables()) {}

  Status Run(RestoreResult* result) {
    ADAPTCP_RETURN_IF_ERROR(group_->StartRestore(options_.interval));
    for (const RestoreFile& file : options_.newest_first) ADAPTCP_RETURN_IF_ERROR(Open(file));
    for (OpenSegment& segment : segments_) ADAPTCP_RETURN_IF_ERROR(ReadKeys(&segment));
    ADAPTCP_RETURN_IF_ERROR(ReadValues());
    result->rows = rows_;
    result->stale_rows = stale_rows_;
    result->bytes_read = bytes_read_;
    result->tables_without_rows = TablesWithoutRows();
    return Status::OK();
  }

 private:
  Status Open(const RestoreFile& file);
  Status CheckHeader(const RestoreFile& file, const SegmentHeader& header) const;
  Status MapTables(const std::string& path, OpenSegment* segment) const;
  Status ReadKeys(OpenSegment* segment);
  Status ReadValues();
  Status LoadBlock(const OpenSegment& segment, size_t block);
  std::vector<std::string> TablesWithoutRows() const;

  TableGroup* const group_;
  FileSystem* const file_system_;
  const RestoreOptions& options_;
  const std::vector<Table*> tables_;
  std::vector<OpenSegment> segments_;
  std::atomic<uint64_t> rows_{0};
  std::atomic<uint64_t> stale_rows_{0};
  std::atomic<uint64_t> bytes_read_{0};
};

Status Restorer::Open(const RestoreFile& file) {
  OpenSegment segment;
  segment.kind = file.kind;
  ADAPTCP_RETURN_IF_ERROR(SegmentReader::Open(file_system_, file.path, &segment.reader));
  if (segment.reader->bytes() != file.bytes || segment.reader->footer_crc() != file.footer_crc) {
    return DataLoss(file.path, ": not the segment that the manifest names; expected ", file.bytes,
                    " bytes with footer checksum ", file.footer_crc, ", found ",
                    segment.reader->bytes(), " bytes with ", segment.reader->footer_crc());
  }
  ADAPTCP_RETURN_IF_ERROR(CheckHeader(file, segment.reader->header()));
  ADAPTCP_RETURN_IF_ERROR(MapTables(file.path, &segment));
  segment.live.resize(segment.reader->num_blocks());
  segments_.push_back(std::move(segment));
  return Status::OK();
}

Status Restorer::CheckHeader(const RestoreFile& file, const SegmentHeader& header) const {
  const TableGroupOptions& expected = group_->options();
  if (header.group != expected.name || header.shard != expected.shard ||
      header.num_shards != expected.num_shards || header.key_type != expected.key_type) {
    return InvalidArgument(file.path, ": expected rows of group '", expected.name, "' shard ",
                           expected.shard, " of ", expected.num_shards, " with ",
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
  for (const TableSpec& saved : segment->reader->header().tables) {
    const auto it = std::find_if(tables_.begin(), tables_.end(), [&saved](const Table* table) {
      return table->spec().name == saved.name;
    });
    if (it == tables_.end()) {
      return InvalidArgument(path, ": table '", saved.name, "' of group '", group_->options().name,
                             "' was saved, but the model has none of that name; use the optimizer "
                             "that the checkpoint was made with");
    }
    const TableSpec& spec = (*it)->spec();
    if (spec.dtype != saved.dtype || spec.dim != saved.dim) {
      return InvalidArgument(path, ": table '", saved.name, "' was saved as ", saved.dtype, " x ",
                             saved.dim, ", the model has ", spec.dtype, " x ", spec.dim);
    }
    segment->tables.push_back(*it);
  }
  return Status::OK();
}

Status Restorer::ReadKeys(OpenSegment* segment) {
  return ParallelFor(segment->reader->num_blocks(), options_.threads, [&](size_t b) -> Status {
    RowBlock block;
    ADAPTCP_RETURN_IF_ERROR(segment->reader->ReadKeys(b, &block));
    bytes_read_ += segment->reader->block(b).keys.length;
    std::vector<uint8_t> live;
    const Status status = group_->RestoreRows(block, segment->kind, &live);
    if (!status.ok()) {
      return Status(status.code(), Concat(segment->reader->path(), ": ", status.message()));
    }
    const size_t current = std::count(live.begin(), live.end(), 1);
    rows_ += current;
    if (!segment->reader->block(b).tombstones) stale_rows_ += block.rows() - current;
    if (current > 0) segment->live[b].assign(live.begin(), live.end());
    return Status::OK();
  });
}

Status Restorer::ReadValues() {
  std::vector<std::pair<const OpenSegment*, size_t>> work;
  for (const OpenSegment& segment : segments_) {
    for (size_t b = 0; b < segment.live.size(); ++b) {
      if (!segment.live[b].empty()) work.emplace_back(&segment, b);
    }
  }
  return ParallelFor(work.size(), options_.threads,
                     [&](size_t i) { return LoadBlock(*work[i].first, work[i].second); });
}

Status Restorer::LoadBlock(const OpenSegment& segment, size_t b) {
  RowBlock block;
  ADAPTCP_RETURN_IF_ERROR(segment.reader->ReadKeys(b, &block));
  const std::vector<int64_t> keys = group_->KeysOf(block);
  std::vector<char> values;
  std::vector<int64_t> current_keys(keys.size());
  for (size_t t = 0; t < segment.tables.size(); ++t) {
    ADAPTCP_RETURN_IF_ERROR(segment.reader->ReadValues(b, t, &values));
    bytes_read_ += segment.reader->block(b).values[t].length;
    const size_t row_bytes = block.columns[t].row_bytes;
    // Rows that are stale or that this table did not hold are squeezed out.
    size_t n = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!segment.live[b][i] || !block.columns[t].present[i]) continue;
      current_keys[n] = keys[i];
      if (n != i) std::memcpy(&values[n * row_bytes], &values[i * row_bytes], row_bytes);
      ++n;
    }
    if (n > 0) {
      ADAPTCP_RETURN_IF_ERROR(segment.tables[t]->Write(current_keys.data(), n, values.data()));
    }
  }
  group_->AddRestoredRows(std::count(segment.live[b].begin(), segment.live[b].end(), true));
  return Status::OK();
}

std::vector<std::string> Restorer::TablesWithoutRows() const {
  std::vector<std::string> names;
  if (rows_ == 0) return names;
  for (Table* table : tables_) {
    const bool saved =
        std::any_of(segments_.begin(), segments_.end(), [table](const OpenSegment& segment) {
          return std::find(segment.tables.begin(), segment.tables.end(), table) !=
                 segment.tables.end();
        });
    if (!saved) names.push_back(table->spec().name);
  }
  return names;
}

}  // namespace

Status Restore(TableGroup* group, FileSystem* file_system, const RestoreOptions& options,
               RestoreResult* result) {
  return Restorer(group, file_system, options).Run(result);
}

}  // namespace adaptcp
