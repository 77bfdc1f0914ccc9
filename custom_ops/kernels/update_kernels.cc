// SPDX-License-Identifier: Apache-2.0
// Kernels of updates: tracked insert and remove, and the brackets around what TFRA changes itself.

#include <functional>
#include <memory>

#include "custom_ops/kernels/table_group_resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adaptcp {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using LookupTablePtr = tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface>;
using GroupPtr = tensorflow::core::RefCountPtr<TableGroupResource>;

// Base of the ops on (group, table, keys, ...): runs Apply inside an update of the group.
class TableUpdateOp : public tensorflow::OpKernel {
 public:
  explicit TableUpdateOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("table_index", &table_index_));
  }

  void Compute(OpKernelContext* context) override {
    GroupPtr resource;
    LookupTablePtr table;
    OP_REQUIRES_OK(context, LookupGroup(context, 0, &resource));
    OP_REQUIRES_OK(context, LookupTable(context, 1, &table));
    OP_REQUIRES(context, resource->group()->IsAttached(table_index_, table.get()),
                tensorflow::errors::FailedPrecondition(
                    "the table is not attached to ", resource->DebugString(), " as number ",
                    table_index_, "; a copied table cannot be updated through its original"));
    KeyBatch batch;
    OP_REQUIRES_OK(context, ToKeyBatch(resource.get(), context->input(2), &batch));
    OP_REQUIRES_OK(context, Check(context, table.get()));
    tensorflow::Status applied;
    const Status updated = Update(resource->group(), batch, context, [&] {
      applied = Apply(context, table.get());
      return FromTensorFlow(applied);
    });
    OP_REQUIRES_OK(context, applied);
    OP_REQUIRES_OK(context, ToTensorFlow(updated));
  }

 protected:
  virtual tensorflow::Status Check(OpKernelContext* context,
                                   tensorflow::lookup::LookupInterface* table) = 0;
  virtual tensorflow::Status Apply(OpKernelContext* context,
                                   tensorflow::lookup::LookupInterface* table) = 0;

  // Runs `apply` as an update of the group.
  virtual Status Update(TableGroup* group, const KeyBatch& batch, OpKernelContext* context,
                        const std::function<Status()>& apply) {
    return group->Update(batch, apply);
  }

  tensorflow::int64 table_index_;
};

class InsertOp : public TableUpdateOp {
 public:
  explicit InsertOp(tensorflow::OpKernelConstruction* context) : TableUpdateOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("keep_values", &keep_values_));
  }

 protected:
  tensorflow::Status Check(OpKernelContext* context,
                           tensorflow::lookup::LookupInterface* table) override {
    return table->CheckKeyAndValueTensorsForInsert(context->input(2), context->input(3));
  }
  tensorflow::Status Apply(OpKernelContext* context,
                           tensorflow::lookup::LookupInterface* table) override {
    return table->Insert(context, context->input(2), context->input(3));
  }
  Status Update(TableGroup* group, const KeyBatch& batch, OpKernelContext* context,
                const std::function<Status()>& apply) override {
    if (!keep_values_) return group->Update(batch, apply);
    const auto held = std::make_shared<const Tensor>(context->input(3));
    const RowValues rows{held->tensor_data().data(), held->TotalBytes(), held};
    return group->Insert(batch, table_index_, rows, apply);
  }

 private:
  bool keep_values_;
};

class RemoveOp : public TableUpdateOp {
 public:
  using TableUpdateOp::TableUpdateOp;

 protected:
  tensorflow::Status Check(OpKernelContext* context,
                           tensorflow::lookup::LookupInterface* table) override {
    return table->CheckKeyTensorForRemove(context->input(2));
  }
  tensorflow::Status Apply(OpKernelContext* context,
                           tensorflow::lookup::LookupInterface* table) override {
    return table->Remove(context, context->input(2));
  }
};

// Before and after an accumulate: both save and mark.
class MarkUpdatedOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    GroupPtr resource;
    OP_REQUIRES_OK(context, LookupGroup(context, 0, &resource));
    KeyBatch batch;
    OP_REQUIRES_OK(context, ToKeyBatch(resource.get(), context->input(1), &batch));
    OP_REQUIRES_OK(context, ToTensorFlow(resource->group()->MarkUpdated(batch)));
  }
};

class WillUpdateOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    GroupPtr resource;
    OP_REQUIRES_OK(context, LookupGroup(context, 0, &resource));
    if (!resource->group()->IsSaving()) return;
    KeyBatch batch;
    OP_REQUIRES_OK(context, ToKeyBatch(resource.get(), context->input(1), &batch));
    resource->group()->WillUpdate(batch);
  }
};

class BeforeReplaceOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    GroupPtr resource;
    OP_REQUIRES_OK(context, LookupGroup(context, 0, &resource));
    resource->group()->BeforeReplace();
  }
};

// AfterReplace forgets what was there before, Adopt adds to it.
template <Status (TableGroup::*method)(const int64_t*, size_t)>
class TakeRowsOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    GroupPtr resource;
    OP_REQUIRES_OK(context, LookupGroup(context, 0, &resource));
    KeyBatch batch;
    OP_REQUIRES_OK(context, ToKeyBatch(resource.get(), context->input(1), &batch));
    OP_REQUIRES_OK(context, ToTensorFlow((resource->group()->*method)(batch.keys, batch.size)));
  }
};

#define REGISTER(op, ...) \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU), __VA_ARGS__)

REGISTER("AdaptcpInsert", InsertOp);
REGISTER("AdaptcpRemove", RemoveOp);
REGISTER("AdaptcpBeforeUpdate", MarkUpdatedOp);
REGISTER("AdaptcpAfterUpdate", MarkUpdatedOp);
REGISTER("AdaptcpWillUpdate", WillUpdateOp);
REGISTER("AdaptcpBeforeReplace", BeforeReplaceOp);
REGISTER("AdaptcpAfterReplace", TakeRowsOp<&TableGroup::AfterReplace>);
REGISTER("AdaptcpAdopt", TakeRowsOp<&TableGroup::Adopt>);

#undef REGISTER

}  // namespace
}  // namespace adaptcp
