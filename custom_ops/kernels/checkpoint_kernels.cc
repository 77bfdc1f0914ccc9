// SPDX-License-Identifier: Apache-2.0
// Kernels of a cut's life (begin, drain, end) and of restore.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "custom_ops/engine/restorer.h"
#include "custom_ops/io/tf_file_system.h"
#include "custom_ops/kernels/table_group_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/tstring.h"

namespace adaptcp {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::tstring;
using GroupPtr = tensorflow::core::RefCountPtr<TableGroupResource>;

FileSystem* Files() {
  static TfFileSystem* const files = new TfFileSystem;
  return files;
}

std::string StringInput(OpKernelContext* context, int input) {
  const tstring& value = context->input(input).scalar<tstring>()();
  return std::string(value.data(), value.size());
}

Status EncodingFromName(const std::string& name, Encoding* encoding) {
  for (Encoding e :
       {Encoding::kRaw, Encoding::kInt2, Encoding::kInt3, Encoding::kInt4, Encoding::kInt8}) {
    if (name == EncodingName(e)) {
      *encoding = e;
      return Status::OK();
    }
  }
  return InvalidArgument("encoding: expected raw, int2, int3, int4 or int8, received '", name, "'");
}

class BeginOp : public tensorflow::OpKernel {
 public:
  explicit BeginOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("N", &num_groups_));
    OP_REQUIRES_OK(context, context->GetAttr("stop_and_copy", &stop_and_copy_));
    OP_REQUIRES_OK(context, GetEncoding(context, "encoding", &encoding_));
    OP_REQUIRES_OK(context, GetEncoding(context, "slot_encoding", &slot_encoding_));
  }

  void Compute(OpKernelContext* context) override {
    std::vector<GroupPtr> resources(num_groups_);
    std::vector<TableGroup*> groups;
    for (int i = 0; i < num_groups_; ++i) {
      OP_REQUIRES_OK(context, LookupGroup(context, i, &resources[i]));
      groups.push_back(resources[i]->group());
    }
    CutOptions options;
    options.interval =
        static_cast<uint32_t>(context->input(num_groups_).scalar<tensorflow::int64>()());
    options.base = context->input(num_groups_ + 1).scalar<bool>()();
    options.hot_threshold = context->input(num_groups_ + 2).scalar<float>()();
    options.hysteresis = context->input(num_groups_ + 3).scalar<float>()();
    options.rate_half_life_intervals = context->input(num_groups_ + 4).scalar<float>()();
    options.stop_and_copy = stop_and_copy_;
    options.encoding = encoding_;
    options.slot_encoding = slot_encoding_;
    OP_REQUIRES_OK(context, ToTensorFlow(TableGroup::Begin(std::move(groups), options)));
  }

 private:
  static tensorflow::Status GetEncoding(tensorflow::OpKernelConstruction* context, const char* name,
                                        Encoding* encoding) {
    std::string value;
    TF_RETURN_IF_ERROR(context->GetAttr(name, &value));
    return ToTensorFlow(EncodingFromName(value, encoding));
  }

  int num_groups_;
  bool stop_and_copy_;
  Encoding encoding_;
  Encoding slot_encoding_;
};

// On the thread that calls it, since training is to wait.
class CopyRowsOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    GroupPtr resource;
    OP_REQUIRES_OK(context, LookupGroup(context, 0, &resource));
    OP_REQUIRES_OK(context, ToTensorFlow(resource->group()->CopyRows()));
  }
};

// Runs on a thread of its own: draining and loading take seconds and must not hold a thread that
// executes training ops.
class BackgroundOp : public tensorflow::AsyncOpKernel {
 public:
  using tensorflow::AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    auto resource = std::make_shared<GroupPtr>();
    OP_REQUIRES_OK_ASYNC(context, LookupGroup(context, 0, resource.get()), done);
    context->env()->SchedClosure([this, context, done, resource] {
      std::string json;
      OP_REQUIRES_OK_ASYNC(context, ToTensorFlow(Run(context, (*resource)->group(), &json)), done);
      Tensor* output;
      OP_REQUIRES_OK_ASYNC(context,
                           context->allocate_output(0, tensorflow::TensorShape({}), &output), done);
      output->scalar<tstring>()() = json;
      done();
    });
  }

 protected:
  virtual Status Run(OpKernelContext* context, TableGroup* group, std::string* json) = 0;
};

std::string SegmentJson(const WrittenSegment& segment) {
  return Concat("{\"file_name\": \"", segment.file_name, "\", \"kind\": \"",
                SegmentKindName(segment.kind), "\", \"bytes\": ", segment.summary.bytes,
                ", \"rows\": ", segment.summary.rows,
                ", \"tombstones\": ", segment.summary.tombstones,
                ", \"footer_crc\": ", segment.summary.footer_crc, "}");
}

class DrainOp : public BackgroundOp {
 public:
  using BackgroundOp::BackgroundOp;

 protected:
  Status Run(OpKernelContext* context, TableGroup* group, std::string* json) override {
    DrainResult result;
    ADAPTCP_RETURN_IF_ERROR(
        group->Drain(Files(), StringInput(context, 1), StringInput(context, 2), &result));
    std::string segments;
    for (const WrittenSegment& segment : result.segments) {
      segments += Concat(segments.empty() ? "" : ", ", SegmentJson(segment));
    }
    const CutCounts& counts = result.counts;
    *json = Concat("{\"segments\": [", segments, "], \"rows_hot\": ", counts.rows_hot,
                   ", \"rows_cold\": ", counts.rows_cold, ", \"tombstones\": ", counts.tombstones,
                   ", \"rows_saved_on_update\": ", counts.rows_saved_on_update,
                   ", \"rows_drained\": ", counts.rows_drained,
                   ", \"stall_nanos\": ", counts.stall_nanos, "}");
    return Status::OK();
  }
};

class EndCutOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    GroupPtr resource;
    OP_REQUIRES_OK(context, LookupGroup(context, 0, &resource));
    OP_REQUIRES_OK(context,
                   ToTensorFlow(resource->group()->EndCut(context->input(1).scalar<bool>()())));
  }
};

Status KindFromName(const std::string& name, SegmentKind* kind) {
  for (SegmentKind k : {SegmentKind::kBase, SegmentKind::kIncrement, SegmentKind::kDifferential}) {
    if (name == SegmentKindName(k)) {
      *kind = k;
      return Status::OK();
    }
  }
  return InvalidArgument("kinds: expected base, increment or differential, received '", name, "'");
}

class RestoreOp : public BackgroundOp {
 public:
  explicit RestoreOp(tensorflow::OpKernelConstruction* context) : BackgroundOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_threads", &num_threads_));
  }

 protected:
  Status Run(OpKernelContext* context, TableGroup* group, std::string* json) override {
    RestoreOptions options;
    options.threads = static_cast<size_t>(num_threads_);
    options.interval = static_cast<uint32_t>(context->input(1).scalar<tensorflow::int64>()());
    ADAPTCP_RETURN_IF_ERROR(ReadFiles(context, &options.newest_first));
    RestoreResult result;
    ADAPTCP_RETURN_IF_ERROR(Restore(group, Files(), options, &result));
    std::string names;
    for (const std::string& name : result.tables_without_rows) {
      names += Concat(names.empty() ? "\"" : ", \"", name, "\"");
    }
    *json = Concat("{\"rows\": ", result.rows, ", \"stale_rows\": ", result.stale_rows,
                   ", \"bytes_read\": ", result.bytes_read, ", \"tables_without_rows\": [", names,
                   "]}");
    return Status::OK();
  }

 private:
  static Status ReadFiles(OpKernelContext* context, std::vector<RestoreFile>* files) {
    const auto paths = context->input(2).flat<tstring>();
    const auto kinds = context->input(3).flat<tstring>();
    const auto intervals = context->input(4).flat<tensorflow::int64>();
    const auto bytes = context->input(5).flat<tensorflow::int64>();
    const auto crcs = context->input(6).flat<tensorflow::int64>();
    const int64_t n = paths.size();
    if (kinds.size() != n || intervals.size() != n || bytes.size() != n || crcs.size() != n) {
      return InvalidArgument("paths, kinds, intervals, bytes and footer_crcs: expected ", n,
                             " elements each");
    }
    for (int64_t i = 0; i < n; ++i) {
      RestoreFile file;
      file.path = std::string(paths(i).data(), paths(i).size());
      ADAPTCP_RETURN_IF_ERROR(
          KindFromName(std::string(kinds(i).data(), kinds(i).size()), &file.kind));
      file.interval = static_cast<uint32_t>(intervals(i));
      file.bytes = static_cast<uint64_t>(bytes(i));
      file.footer_crc = static_cast<uint32_t>(crcs(i));
      files->push_back(std::move(file));
    }
    return Status::OK();
  }

  tensorflow::int64 num_threads_;
};

#define REGISTER(op, kernel) \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU), kernel)

REGISTER("AdaptcpBegin", BeginOp);
REGISTER("AdaptcpCopyRows", CopyRowsOp);
REGISTER("AdaptcpDrain", DrainOp);
REGISTER("AdaptcpEndCut", EndCutOp);
REGISTER("AdaptcpRestore", RestoreOp);

#undef REGISTER

}  // namespace
}  // namespace adaptcp
