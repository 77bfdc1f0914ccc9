// SPDX-License-Identifier: Apache-2.0
// Classes, reads and appends.

#include "custom_ops/engine/row_saver.h"

#include <algorithm>
#include <cstring>

namespace adaptcp {
namespace {

// Long enough to overlap the tables' cache misses, short enough that an update never holds a stripe
// for long.
constexpr size_t kMaxBatchRows = 128;

uint8_t PackFlags(const RowEntry& row, uint8_t flags) {
  return static_cast<uint8_t>(flags | (row.history << kRowHistoryShift));
}

bool InAnyTable(const RowBlock& block, size_t i) {
  for (const TableColumn& column : block.columns) {
    if (column.present[i]) return true;
  }
  return false;
}

void MoveRow(RowBlock* block, size_t from, size_t to) {
  for (TableColumn& column : block->columns) {
    std::memcpy(column.values.data() + to * column.row_bytes,
                column.values.data() + from * column.row_bytes, column.row_bytes);
    column.present[to] = column.present[from];
  }
}

}  // namespace

RowSaver::RowSaver(Cut* cut, const RateModel* rates, KeyInterner* interner, SaveReason reason)
    : cut_(cut),
      rates_(rates),
      interner_(interner),
      reason_(reason),
      max_rows_(std::min(kMaxBatchRows, cut->block_capacity())) {}

RowSaver::~RowSaver() {
  FlushTombstones();
  for (size_t lane = 0; lane < kLanes; ++lane) {
    std::unique_ptr<RowBlock>& block = batches_[lane].block;
    if (block) cut_->GiveBackBlock(static_cast<Lane>(lane), std::move(block));
  }
  if (!cooled_.empty()) cut_->AddCooled(cooled_);
  cut_->AddCounts(counts_);
}

void RowSaver::Reserve(size_t rows) {
  FlushTombstones();
  for (Batch& batch : batches_) batch.keys.clear();
  const auto reserve = [&](Lane lane) {
    std::unique_ptr<RowBlock>& block = batches_[static_cast<size_t>(lane)].block;
    if (block && block->rows() + rows <= cut_->block_capacity()) return;
    if (block) cut_->GiveBackBlock(lane, std::move(block));
    block = cut_->TakeBlock(lane, rows);
  };
  if (cut_->options().base) {
    reserve(Lane::kBase);
    return;
  }
  if (cut_->options().hot_threshold > 0) reserve(Lane::kIncrement);
  if (cut_->options().hot_threshold <= 1) reserve(Lane::kDifferential);
}

bool RowSaver::Needs(const RowEntry& row) const {
  const uint32_t interval = cut_->options().interval;
  if (row.saved == cut_->tag() || row.last_updated > interval) return false;
  if (cut_->options().base) return !row.removed;
  return row.standing || row.last_updated >= cut_->first_interval();
}

bool RowSaver::IsHot(const RowEntry& row) const {
  const CutOptions& options = cut_->options();
  // The pure schemes are exact: no rate, however small or large, may leave its class.
  if (options.hot_threshold <= 0) return true;
  if (options.hot_threshold > 1) return false;
  const double rate =
      rates_->Decayed(row, options.interval - static_cast<uint32_t>(row.last_updated)) / kRateOne;
  const double band = row.hot ? 1 - options.hysteresis : 1 + options.hysteresis;
  return rate >= std::min(1.0, options.hot_threshold * band);
}

size_t RowSaver::LaneOf(const RowEntry& row) const {
  return static_cast<size_t>(cut_->options().base ? Lane::kBase
                             : IsHot(row)         ? Lane::kDifferential
                                                  : Lane::kIncrement);
}

void RowSaver::Add(const RowEntry& row) { batches_[LaneOf(row)].keys.push_back(row.key); }

bool RowSaver::AddNeeded(Stripe* stripe, const HashedKey* keys, size_t n) {
  bool needed = false;
  stripe->rows.FindAll(keys, n, [&](const HashedKey&, const RowEntry* row) {
    if (row == nullptr || !Needs(*row)) return;
    Add(*row);
    needed = true;
  });
  return needed;
}

bool RowSaver::CopyNeeded(Stripe* stripe, const HashedKey* keys, size_t n,
                          const LoggedInsert& insert) {
  logged_.clear();
  const std::vector<Table*>& tables = cut_->tables();
  stripe->rows.FindAll(keys, n, [&](const HashedKey& key, RowEntry* row) {
    if (row == nullptr || !Needs(*row)) return;
    logged_.push_back({row, key.index});
    for (size_t t = 0; t < tables.size(); ++t) {
      __builtin_prefetch(insert.tables[t].values + key.index * tables[t]->spec().row_bytes);
    }
  });
  bool twice = false;
  for (const Logged& logged : logged_) {
    twice |= logged.row->saved == cut_->tag();
    logged.row->saved = cut_->tag();
  }
  if (twice) {
    for (const Logged& logged : logged_) logged.row->saved = 0;
    return false;
  }
  for (const Logged& logged : logged_) {
    const size_t lane = LaneOf(*logged.row);
    RowBlock* block = batches_[lane].block.get();
    for (size_t t = 0; t < tables.size(); ++t) {
      TableColumn& column = block->columns[t];
      const char* values = insert.tables[t].values + logged.index * column.row_bytes;
      column.values.resize(block->rows() * column.row_bytes);
      column.values.insert(column.values.end(), values, values + column.row_bytes);
      column.present.resize(block->rows());
      column.present.push_back(1);
    }
    AppendRow(lane, logged.row, stripe);
  }
  return true;
}

void RowSaver::DropDuplicates() {
  for (Batch& batch : batches_) {
    std::sort(batch.keys.begin(), batch.keys.end());
    batch.keys.erase(std::unique(batch.keys.begin(), batch.keys.end()), batch.keys.end());
  }
}

Status RowSaver::Read() {
  for (Batch& batch : batches_) {
    if (!batch.keys.empty()) ADAPTCP_RETURN_IF_ERROR(ReadLane(&batch));
  }
  return Status::OK();
}

Status RowSaver::ReadLane(Batch* batch) {
  const size_t first = batch->block->rows();
  for (size_t t = 0; t < batch->block->columns.size(); ++t) {
    TableColumn& column = batch->block->columns[t];
    // Within what the pool reserved. Whole columns at once would cost an update a page fault for
    // every page of a block of which it may need a row.
    column.values.resize((first + batch->keys.size()) * column.row_bytes);
    column.present.resize(first + batch->keys.size());
    ADAPTCP_RETURN_IF_ERROR(cut_->tables()[t]->Read(batch->keys.data(), batch->keys.size(),
                                                    column.values.data() + first * column.row_bytes,
                                                    column.present.data() + first));
  }
  return Status::OK();
}

void RowSaver::Append(Stripe* stripe) {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (!batches_[lane].keys.empty()) AppendLane(lane, stripe);
  }
}

void RowSaver::AppendLane(size_t lane, Stripe* stripe) {
  RowBlock* block = batches_[lane].block.get();
  const std::vector<int64_t>& keys = batches_[lane].keys;
  const size_t first = block->rows();
  for (size_t i = 0; i < keys.size(); ++i) {
    RowEntry* row = stripe->rows.Find(keys[i], HashKey(keys[i]));
    // Saved meanwhile by an update, or standing twice in one update.
    if (row == nullptr || !Needs(*row)) continue;
    row->saved = cut_->tag();
    if (!InAnyTable(*block, first + i)) {
      AddTombstone(row, stripe);
      continue;
    }
    if (block->rows() != first + i) MoveRow(block, first + i, block->rows());
    AppendRow(lane, row, stripe);
  }
}

void RowSaver::AppendRow(size_t lane, RowEntry* row, Stripe* stripe) {
  const bool differential = static_cast<Lane>(lane) == Lane::kDifferential;
  const bool hot = differential || (static_cast<Lane>(lane) == Lane::kBase && IsHot(*row));
  if (row->standing && static_cast<Lane>(lane) == Lane::kIncrement) cooled_.push_back(row->key);
  row->hot = hot;
  row->standing = differential;
  if (differential && !row->listed && !stripe->standing.overflowed()) {
    row->listed = 1;
    stripe->standing.Add(row->key, stripe->rows.capacity());
  }
  AppendKey(*row, hot ? kRowHot : 0, batches_[lane].block.get());
  ++(hot ? counts_.rows_hot : counts_.rows_cold);
  switch (reason_) {
    case SaveReason::kUpdate:
      ++counts_.rows_saved_on_update;
      break;
    case SaveReason::kDrain:
      ++counts_.rows_drained;
      break;
    case SaveReason::kPrefetch:
      ++counts_.rows_prefetched;
      break;
  }
}

void RowSaver::AddTombstone(RowEntry* row, Stripe* stripe) {
  if (row->standing) cooled_.push_back(row->key);
  if (!row->removed) --stripe->live;
  row->removed = 1;
  row->hot = 0;
  row->standing = 0;
  RateModel::Reset(row);
  if (!cut_->options().base) tombstones_.push_back(*row);
}

void RowSaver::AppendKey(const RowEntry& row, uint8_t flags, RowBlock* block) {
  if (interner_ != nullptr) {
    block->string_keys.push_back(interner_->KeyOf(row.key));
  } else {
    block->keys.push_back(row.key);
  }
  block->last_updated.push_back(static_cast<uint32_t>(row.last_updated));
  block->rates.push_back(static_cast<uint16_t>(row.rate));
  block->flags.push_back(PackFlags(row, flags));
}

void RowSaver::FlushTombstones() {
  while (!tombstones_.empty()) {
    const size_t n = std::min(tombstones_.size(), cut_->block_capacity());
    std::unique_ptr<RowBlock> block = cut_->TakeBlock(Lane::kTombstone, n);
    for (size_t i = tombstones_.size() - n; i < tombstones_.size(); ++i) {
      AppendKey(tombstones_[i], kRowTombstone, block.get());
    }
    tombstones_.resize(tombstones_.size() - n);
    counts_.tombstones += n;
    cut_->GiveBackBlock(Lane::kTombstone, std::move(block));
  }
}

}  // namespace adaptcp
