// SPDX-License-Identifier: Apache-2.0
// Kernels that give the table group of a TF1 session to the rest of the process.

#include <string>
#include <unordered_map>
#include <utility>

#include "custom_ops/base/mutex.h"
#include "custom_ops/kernels/table_group_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/platform/random.h"
#include "tensorflow/core/platform/tstring.h"

namespace adaptcp {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::tstring;
using GroupPtr = tensorflow::core::RefCountPtr<TableGroupResource>;

// Groups on their way from a session's resource manager, which nobody else sees, to whoever takes
// them. Thread-safe.
class SharedGroups {
 public:
  static SharedGroups* Process() {
    static SharedGroups* const groups = new SharedGroups;
    return groups;
  }

  std::string Put(GroupPtr group) TF_LOCKS_EXCLUDED(mu_) {
    // Random, so that a token of another process means nothing in this one.
    std::string token = Concat("group-", tensorflow::random::New64());
    MutexLock lock(&mu_);
    groups_[token] = std::move(group);
    return token;
  }
  // Null when there is none.
  GroupPtr Take(const std::string& token) TF_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const auto found = groups_.find(token);
    if (found == groups_.end()) return nullptr;
    GroupPtr group = std::move(found->second);
    groups_.erase(found);
    return group;
  }

 private:
  Mutex mu_;
  std::unordered_map<std::string, GroupPtr> groups_ TF_GUARDED_BY(mu_);
};

class ShareTableGroupOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    GroupPtr group;
    OP_REQUIRES_OK(context, LookupGroup(context, 0, &group));
    Tensor* output;
    OP_REQUIRES_OK(context, context->allocate_output(0, tensorflow::TensorShape({}), &output));
    output->scalar<tstring>()() = SharedGroups::Process()->Put(std::move(group));
  }
};

class TakeTableGroupOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const tstring& token = context->input(0).scalar<tstring>()();
    GroupPtr group = SharedGroups::Process()->Take(std::string(token.data(), token.size()));
    OP_REQUIRES(context, group != nullptr,
                tensorflow::errors::NotFound("no table group was shared in this process as '",
                                             token, "', or it was taken before"));
    Tensor* output;
    OP_REQUIRES_OK(context, context->allocate_output(0, tensorflow::TensorShape({}), &output));
    output->scalar<tensorflow::ResourceHandle>()() =
        tensorflow::ResourceHandle::MakeRefCountingHandle(group.release(),
                                                          context->device()->name());
  }
};

#define REGISTER(op, kernel) \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU), kernel)

REGISTER("AdaptcpShareTableGroup", ShareTableGroupOp);
REGISTER("AdaptcpTakeTableGroup", TakeTableGroupOp);

#undef REGISTER

}  // namespace
}  // namespace adaptcp
