// SPDX-License-Identifier: Apache-2.0
// Kernel that merges a chain into a base.

#include <string>

#include "custom_ops/engine/compactor.h"
#include "custom_ops/kernels/background_op.h"
#include "custom_ops/kernels/key_tensor.h"
#include "custom_ops/kernels/segment_files.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adaptcp {
namespace {

using tensorflow::OpKernelContext;

class CompactOp : public BackgroundOp {
 public:
  explicit CompactOp(tensorflow::OpKernelConstruction* context) : BackgroundOp(context) {
    tensorflow::DataType key_dtype;
    tensorflow::int64 shard, num_shards, num_threads;
    OP_REQUIRES_OK(context, context->GetAttr("key_dtype", &key_dtype));
    OP_REQUIRES_OK(context, context->GetAttr("group_name", &group_.name));
    OP_REQUIRES_OK(context, context->GetAttr("shard", &shard));
    OP_REQUIRES_OK(context, context->GetAttr("num_shards", &num_shards));
    OP_REQUIRES_OK(context, context->GetAttr("num_threads", &num_threads));
    for (KeyType type : {KeyType::kInt64, KeyType::kInt32, KeyType::kString}) {
      if (KeyDtype(type) == key_dtype) group_.key_type = type;
    }
    group_.shard = static_cast<uint32_t>(shard);
    group_.num_shards = static_cast<uint32_t>(num_shards);
    num_threads_ = static_cast<size_t>(num_threads);
  }

 protected:
  Status Prepare(OpKernelContext* context, Work* work) override {
    CompactOptions options;
    options.group = group_;
    options.interval = static_cast<uint32_t>(context->input(0).scalar<tensorflow::int64>()());
    options.threads = num_threads_;
    ADAPTCP_RETURN_IF_ERROR(ReadSegmentFiles(context, 3, &options.newest_first));
    const std::string directory = StringInput(context, 1);
    const std::string file_prefix = StringInput(context, 2);
    *work = [options, directory, file_prefix](std::string* json) {
      CompactResult result;
      ADAPTCP_RETURN_IF_ERROR(Compact(Files(), options, directory, file_prefix, &result));
      *json = Concat("{\"segments\": ", SegmentsJson(result.segments), ", \"rows\": ", result.rows,
                     ", \"stale_rows\": ", result.stale_rows,
                     ", \"bytes_read\": ", result.bytes_read, "}");
      return Status::OK();
    };
    return Status::OK();
  }

 private:
  TableGroupOptions group_;
  size_t num_threads_;
};

REGISTER_KERNEL_BUILDER(Name("AdaptcpCompact").Device(tensorflow::DEVICE_CPU), CompactOp);

}  // namespace
}  // namespace adaptcp
