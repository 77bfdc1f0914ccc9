// SPDX-License-Identifier: Apache-2.0
// Kernels of a cut's life (begin, drain, end) and of restore.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "custom_ops/engine/restorer.h"
#include "custom_ops/kernels/background_op.h"
#include "custom_ops/kernels/key_tensor.h"
#include "custom_ops/kernels/segment_files.h"
#include "custom_ops/kernels/table_group_resource.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/notification.h"

namespace adaptcp {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using GroupPtr = tensorflow::core::RefCountPtr<TableGroupResource>;

Status EncodingFromName(const std::string& name, Encoding* encoding) {
  constexpr Encoding kAll[] = {Encoding::kRaw,     Encoding::kInt2, Encoding::kInt3,
                               Encoding::kInt4,    Encoding::kInt8, Encoding::kFloat16,
                               Encoding::kBfloat16};
  for (Encoding e : kAll) {
    if (name == EncodingName(e)) {
      *encoding = e;
      return Status::OK();
    }
  }
  return InvalidArgument("encoding: expected raw, int2, int3, int4, int8, float16 or bfloat16, ",
                         "received '", name, "'");
}

class BeginOp : public tensorflow::OpKernel {
 public:
  explicit BeginOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("N", &num_groups_));
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

// A BackgroundOp on groups, its first inputs.
class GroupsOp : public BackgroundOp {
 public:
  using BackgroundOp::BackgroundOp;

 protected:
  Status Prepare(OpKernelContext* context, Work* work) override {
    auto resources = std::make_shared<std::vector<GroupPtr>>(num_groups_);
    std::vector<TableGroup*> groups;
    for (int i = 0; i < num_groups_; ++i) {
      ADAPTCP_RETURN_IF_ERROR(FromTensorFlow(LookupGroup(context, i, &(*resources)[i])));
      groups.push_back((*resources)[i]->group());
    }
    *work = [this, context, resources, groups](std::string* json) {
      return Run(context, groups, json);
    };
    return Status::OK();
  }

  virtual Status Run(OpKernelContext* context, const std::vector<TableGroup*>& groups,
                     std::string* json) = 0;

  int num_groups_ = 1;
};

class DrainOp : public GroupsOp {
 public:
  explicit DrainOp(tensorflow::OpKernelConstruction* context) : GroupsOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("max_writers", &max_writers_));
  }

 protected:
  Status Run(OpKernelContext* context, const std::vector<TableGroup*>& groups,
             std::string* json) override {
    DrainResult result;
    ADAPTCP_RETURN_IF_ERROR(groups[0]->Drain(Files(), StringInput(context, 1),
                                             StringInput(context, 2),
                                             static_cast<size_t>(max_writers_), &result));
    const CutCounts& counts = result.counts;
    *json = Concat("{\"segments\": ", SegmentsJson(result.segments),
                   ", \"rows_hot\": ", counts.rows_hot, ", \"rows_cold\": ", counts.rows_cold,
                   ", \"tombstones\": ", counts.tombstones,
                   ", \"rows_saved_on_update\": ", counts.rows_saved_on_update,
                   ", \"rows_drained\": ", counts.rows_drained,
                   ", \"rows_prefetched\": ", counts.rows_prefetched,
                   ", \"stall_nanos\": ", counts.stall_nanos, "}");
    return Status::OK();
  }

 private:
  tensorflow::int64 max_writers_;
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

class RestoreOp : public GroupsOp {
 public:
  explicit RestoreOp(tensorflow::OpKernelConstruction* context) : GroupsOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("N", &num_groups_));
    OP_REQUIRES_OK(context, context->GetAttr("saved_shards", &saved_shards_));
    OP_REQUIRES_OK(context, context->GetAttr("partition", &partition_));
    OP_REQUIRES_OK(context, context->GetAttr("slots", &slots_));
    OP_REQUIRES_OK(context, context->GetAttr("num_threads", &num_threads_));
    OP_REQUIRES_OK(context, context->GetAttr("read_threads", &read_threads_));
    OP_REQUIRES(
        context, num_groups_ == 1 || partition_.size() == 1,
        tensorflow::errors::InvalidArgument("partition: expected one function for ", num_groups_,
                                            " shards, received ", partition_.size()));
  }

 protected:
  Status Run(OpKernelContext* context, const std::vector<TableGroup*>& groups,
             std::string* json) override {
    RestoreOptions options;
    options.threads = static_cast<size_t>(num_threads_);
    options.read_threads = static_cast<size_t>(read_threads_);
    options.saved_shards = static_cast<uint32_t>(saved_shards_);
    options.slots = slots_;
    options.interval =
        static_cast<uint32_t>(context->input(num_groups_).scalar<tensorflow::int64>()());
    ADAPTCP_RETURN_IF_ERROR(ReadSegmentFiles(context, num_groups_ + 1, &options.newest_first));
    tensorflow::FunctionLibraryRuntime::Handle function;
    if (num_groups_ > 1) {
      const KeyType key_type = groups[0]->options().key_type;
      ADAPTCP_RETURN_IF_ERROR(FromTensorFlow(context->function_library()->Instantiate(
          partition_[0].name(), tensorflow::AttrSlice(&partition_[0].attr()), &function)));
      options.partition = [context, function, key_type](const RowBlock& block,
                                                        std::vector<int32_t>* shard) {
        return FromTensorFlow(CallPartition(context, function, KeyTensor(block, key_type), shard));
      };
    }
    RestoreResult result;
    const Status status = Restore(groups, Files(), options, &result);
    if (num_groups_ > 1) {
      // Of the handle alone; what became of the restore matters more.
      (void)context->function_library()->ReleaseHandle(function).ok();
    }
    ADAPTCP_RETURN_IF_ERROR(status);
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
  // Runs on a thread of the restore, which may wait: the function runs on the executor's threads.
  static tensorflow::Status CallPartition(OpKernelContext* context,
                                          tensorflow::FunctionLibraryRuntime::Handle function,
                                          const Tensor& keys, std::vector<int32_t>* shard) {
    tensorflow::FunctionLibraryRuntime::Options options;
    options.runner = context->runner();
    options.step_container = context->step_container();
    options.cancellation_manager = context->cancellation_manager();
    options.create_rendezvous = true;
    std::vector<Tensor> results;
    tensorflow::Notification done;
    tensorflow::Status status;
    const std::vector<Tensor> arguments = {keys};
    context->function_library()->Run(options, function, arguments, &results,
                                     [&](const tensorflow::Status& finished) {
                                       status = finished;
                                       done.Notify();
                                     });
    done.WaitForNotification();
    TF_RETURN_IF_ERROR(status);
    if (results.size() != 1 || results[0].dtype() != tensorflow::DT_INT32 ||
        results[0].NumElements() != keys.NumElements()) {
      return tensorflow::errors::InvalidArgument(
          "partition function: expected ", keys.NumElements(), " shards as int32, received ",
          results.size() == 1 ? results[0].DebugString(0) : "other results");
    }
    const auto shards = results[0].flat<int32_t>();
    shard->assign(shards.data(), shards.data() + shards.size());
    return tensorflow::Status();
  }

  tensorflow::int64 saved_shards_;
  tensorflow::int64 num_threads_;
  tensorflow::int64 read_threads_;
  bool slots_;
  std::vector<tensorflow::NameAttrList> partition_;
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
