// SPDX-License-Identifier: Apache-2.0
// Kernels of saving on the input thread: a target that datasets know, the groups bound to it later.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/kernels/table_group_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"

namespace adaptcp {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using GroupPtr = tensorflow::core::RefCountPtr<TableGroupResource>;

// Stands for the shards of one table group, which need not exist yet. Thread-safe.
class PrefetchTarget : public tensorflow::ResourceBase {
 public:
  using Groups = std::vector<GroupPtr>;

  void Bind(Groups groups) TF_LOCKS_EXCLUDED(mu_) {
    auto bound = std::make_shared<const Groups>(std::move(groups));
    MutexLock lock(&mu_);
    groups_.swap(bound);
  }
  // None before Bind.
  std::shared_ptr<const Groups> groups() TF_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return groups_;
  }

  std::string DebugString() const override { return "target of prefetched keys"; }

 private:
  Mutex mu_;
  std::shared_ptr<const Groups> groups_ TF_GUARDED_BY(mu_) = std::make_shared<const Groups>();
};

using TargetPtr = tensorflow::core::RefCountPtr<PrefetchTarget>;

tensorflow::Status LookupTarget(OpKernelContext* context, TargetPtr* target) {
  return tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 0), target);
}

class PrefetchTargetOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    Tensor* output;
    OP_REQUIRES_OK(context, context->allocate_output(0, tensorflow::TensorShape({}), &output));
    output->scalar<tensorflow::ResourceHandle>()() =
        tensorflow::ResourceHandle::MakeRefCountingHandle(new PrefetchTarget,
                                                          context->device()->name());
  }
};

class BindPrefetchTargetOp : public tensorflow::OpKernel {
 public:
  explicit BindPrefetchTargetOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("N", &num_groups_));
  }

  void Compute(OpKernelContext* context) override {
    TargetPtr target;
    OP_REQUIRES_OK(context, LookupTarget(context, &target));
    PrefetchTarget::Groups groups(num_groups_);
    for (int i = 0; i < num_groups_; ++i) {
      OP_REQUIRES_OK(context, LookupGroup(context, i + 1, &groups[i]));
    }
    target->Bind(std::move(groups));
  }

 private:
  int num_groups_;
};

class SaveBeforeUpdateOp : public tensorflow::OpKernel {
 public:
  explicit SaveBeforeUpdateOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("window", &window_));
  }

  void Compute(OpKernelContext* context) override {
    TargetPtr target;
    OP_REQUIRES_OK(context, LookupTarget(context, &target));
    const Tensor& keys = context->input(1);
    const auto groups = target->groups();
    for (const GroupPtr& pointer : *groups) {
      TableGroupResource* const resource = pointer.get();
      OP_REQUIRES(context, keys.dtype() == resource->key_dtype(),
                  tensorflow::errors::InvalidArgument(
                      "keys of ", resource->DebugString(), ": expected ",
                      tensorflow::DataTypeString(resource->key_dtype()), ", received ",
                      tensorflow::DataTypeString(keys.dtype())));
      // The group, which keeps the batch for a while, is a part of the resource.
      resource->group()->SaveBeforeUpdate([resource, keys] { return ToKnownKeys(resource, keys); },
                                          static_cast<size_t>(window_));
    }
  }

 private:
  tensorflow::int64 window_;
};

#define REGISTER(op, kernel) \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU), kernel)

REGISTER("AdaptcpPrefetchTarget", PrefetchTargetOp);
REGISTER("AdaptcpBindPrefetchTarget", BindPrefetchTargetOp);
REGISTER("AdaptcpSaveBeforeUpdate", SaveBeforeUpdateOp);

#undef REGISTER

}  // namespace
}  // namespace adaptcp
