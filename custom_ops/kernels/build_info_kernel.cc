// SPDX-License-Identifier: Apache-2.0
// Kernel of AdaptcpBuildInfo.

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/tstring.h"
#include "tensorflow/core/public/version.h"

namespace adaptcp {
namespace {

class BuildInfoOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    tensorflow::Tensor* version = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, tensorflow::TensorShape({}), &version));
    version->scalar<tensorflow::tstring>()() = TF_VERSION_STRING;
  }
};

REGISTER_KERNEL_BUILDER(Name("AdaptcpBuildInfo").Device(tensorflow::DEVICE_CPU), BuildInfoOp);

}  // namespace
}  // namespace adaptcp
