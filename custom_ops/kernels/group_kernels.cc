// SPDX-License-Identifier: Apache-2.0
// Kernels that make a table group, attach tables to it and describe it.

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "custom_ops/kernels/lookup_table.h"
#include "custom_ops/kernels/table_group_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_op_kernel.h"
#include "tensorflow/core/platform/tstring.h"

namespace adaptcp {
namespace {

using tensorflow::OpKernelContext;

KeyType KeyTypeOf(tensorflow::DataType dtype) {
  if (dtype == tensorflow::DT_INT32) return KeyType::kInt32;
  if (dtype == tensorflow::DT_STRING) return KeyType::kString;
  return KeyType::kInt64;
}

class TableGroupOp : public tensorflow::ResourceOpKernel<TableGroupResource> {
 public:
  explicit TableGroupOp(tensorflow::OpKernelConstruction* context) : ResourceOpKernel(context) {
    tensorflow::int64 shard, num_shards;
    OP_REQUIRES_OK(context, context->GetAttr("group_name", &options_.name));
    OP_REQUIRES_OK(context, context->GetAttr("shard", &shard));
    OP_REQUIRES_OK(context, context->GetAttr("num_shards", &num_shards));
    OP_REQUIRES_OK(context, context->GetAttr("key_dtype", &key_dtype_));
    OP_REQUIRES(context, 0 <= shard && shard < num_shards,
                tensorflow::errors::InvalidArgument("shard: expected 0 to ", num_shards - 1,
                                                    ", received ", shard));
    options_.shard = static_cast<uint32_t>(shard);
    options_.num_shards = static_cast<uint32_t>(num_shards);
    options_.key_type = KeyTypeOf(key_dtype_);
  }

 private:
  tensorflow::Status CreateResource(TableGroupResource** resource) override {
    *resource = new TableGroupResource(options_, key_dtype_);
    return tensorflow::Status();
  }

  TableGroupOptions options_;
  tensorflow::DataType key_dtype_;
};

class AttachTableOp : public tensorflow::OpKernel {
 public:
  explicit AttachTableOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("table_index", &table_index_));
    OP_REQUIRES_OK(context, context->GetAttr("table_name", &table_name_));
  }

  void Compute(OpKernelContext* context) override {
    tensorflow::core::RefCountPtr<TableGroupResource> resource;
    tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface> table;
    OP_REQUIRES_OK(context, LookupGroup(context, 0, &resource));
    OP_REQUIRES_OK(context, LookupTable(context, 1, &table));
    // In a TF1 graph every step runs this op; only the first may stop the updates.
    if (resource->group()->IsAttached(table_index_, table.get())) return;
    OP_REQUIRES(context, table->key_dtype() == resource->key_dtype(),
                tensorflow::errors::InvalidArgument(
                    "table '", table_name_, "': expected ",
                    tensorflow::DataTypeString(resource->key_dtype()), " keys like the rest of ",
                    resource->DebugString(), ", received ",
                    tensorflow::DataTypeString(table->key_dtype())));
    const void* identity = table.get();
    std::unique_ptr<Table> adapter;
    OP_REQUIRES_OK(context, ToTensorFlow(adaptcp::LookupTable::Create(
                                std::move(table), table_name_, context->input(2),
                                resource->group()->interner(), &adapter)));
    OP_REQUIRES_OK(context, ToTensorFlow(resource->group()->Attach(table_index_, identity,
                                                                   std::move(adapter))));
  }

 private:
  tensorflow::int64 table_index_;
  std::string table_name_;
};

class GroupStatsOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    tensorflow::core::RefCountPtr<TableGroupResource> resource;
    OP_REQUIRES_OK(context, LookupGroup(context, 0, &resource));
    tensorflow::Tensor* output;
    OP_REQUIRES_OK(context, context->allocate_output(0, tensorflow::TensorShape({}), &output));
    const GroupStats stats = resource->group()->Stats();
    std::string table_rows;
    for (const uint64_t rows : stats.table_rows) {
      table_rows += Concat(table_rows.empty() ? "" : ", ", rows);
    }
    output->scalar<tensorflow::tstring>()() =
        Concat("{\"rows\": ", stats.rows, ", \"table_rows\": [", table_rows,
               "], \"rows_to_save\": ", stats.rows_to_save,
               ", \"tracker_bytes\": ", stats.tracker_bytes, ", \"interval\": ", stats.interval,
               ", \"base_required\": ", stats.base_required ? "true" : "false",
               ", \"cut_active\": ", stats.cut_active ? "true" : "false",
               ", \"restored_rows\": ", stats.restored_rows, "}");
  }
};

class RateHistogramOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    tensorflow::core::RefCountPtr<TableGroupResource> resource;
    OP_REQUIRES_OK(context, LookupGroup(context, 0, &resource));
    const RateHistogram histogram = resource->group()->Rates();
    OP_REQUIRES_OK(context, Output(context, 0, histogram.rows));
    OP_REQUIRES_OK(context, Output(context, 1, histogram.rate_sums));
  }

 private:
  static tensorflow::Status Output(OpKernelContext* context, int index,
                                   const std::array<double, RateHistogram::kBins>& values) {
    tensorflow::Tensor* output;
    TF_RETURN_IF_ERROR(context->allocate_output(
        index, tensorflow::TensorShape({static_cast<int64_t>(values.size())}), &output));
    std::copy(values.begin(), values.end(), output->flat<double>().data());
    return tensorflow::Status();
  }
};

#define REGISTER(op, kernel) \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU), kernel)

REGISTER("AdaptcpTableGroup", TableGroupOp);
REGISTER("AdaptcpAttachTable", AttachTableOp);
REGISTER("AdaptcpGroupStats", GroupStatsOp);
REGISTER("AdaptcpRateHistogram", RateHistogramOp);

#undef REGISTER

}  // namespace
}  // namespace adaptcp
