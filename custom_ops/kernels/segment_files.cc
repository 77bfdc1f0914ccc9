// SPDX-License-Identifier: Apache-2.0
// Conversions of lists of segments.

#include "custom_ops/kernels/segment_files.h"

#include <utility>

#include "tensorflow/core/platform/tstring.h"

namespace adaptcp {
namespace {

using tensorflow::tstring;

Status KindFromName(const std::string& name, SegmentKind* kind) {
  for (SegmentKind k : {SegmentKind::kBase, SegmentKind::kIncrement, SegmentKind::kDifferential}) {
    if (name == SegmentKindName(k)) {
      *kind = k;
      return Status::OK();
    }
  }
  return InvalidArgument("kinds: expected base, increment or differential, received '", name, "'");
}

std::string SegmentJson(const WrittenSegment& segment) {
  return Concat("{\"file_name\": \"", segment.file_name, "\", \"kind\": \"",
                SegmentKindName(segment.kind), "\", \"bytes\": ", segment.summary.bytes,
                ", \"rows\": ", segment.summary.rows,
                ", \"tombstones\": ", segment.summary.tombstones,
                ", \"footer_crc\": ", segment.summary.footer_crc, "}");
}

}  // namespace

std::string StringInput(tensorflow::OpKernelContext* context, int input) {
  const tstring& value = context->input(input).scalar<tstring>()();
  return std::string(value.data(), value.size());
}

Status ReadSegmentFiles(tensorflow::OpKernelContext* context, int first,
                        std::vector<RestoreFile>* files) {
  const auto paths = context->input(first).flat<tstring>();
  const auto kinds = context->input(first + 1).flat<tstring>();
  const auto intervals = context->input(first + 2).flat<tensorflow::int64>();
  const auto shards = context->input(first + 3).flat<tensorflow::int64>();
  const auto bytes = context->input(first + 4).flat<tensorflow::int64>();
  const auto crcs = context->input(first + 5).flat<tensorflow::int64>();
  const int64_t n = paths.size();
  for (int64_t size : {kinds.size(), intervals.size(), shards.size(), bytes.size(), crcs.size()}) {
    if (size == n) continue;
    return InvalidArgument("paths, kinds, intervals, shards, bytes and footer_crcs: expected ", n,
                           " elements each");
  }
  for (int64_t i = 0; i < n; ++i) {
    RestoreFile file;
    file.path = std::string(paths(i).data(), paths(i).size());
    ADAPTCP_RETURN_IF_ERROR(
        KindFromName(std::string(kinds(i).data(), kinds(i).size()), &file.kind));
    file.interval = static_cast<uint32_t>(intervals(i));
    file.shard = static_cast<uint32_t>(shards(i));
    file.bytes = static_cast<uint64_t>(bytes(i));
    file.footer_crc = static_cast<uint32_t>(crcs(i));
    files->push_back(std::move(file));
  }
  return Status::OK();
}

std::string SegmentsJson(const std::vector<WrittenSegment>& segments) {
  std::string json;
  for (const WrittenSegment& segment : segments) {
    json += Concat(json.empty() ? "" : ", ", SegmentJson(segment));
  }
  return Concat("[", json, "]");
}

}  // namespace adaptcp
