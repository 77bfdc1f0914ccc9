// SPDX-License-Identifier: Apache-2.0
// Kernel that uploads files from the machine it is placed on.

#include <string>
#include <vector>

#include "custom_ops/engine/uploader.h"
#include "custom_ops/kernels/background_op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/tstring.h"

namespace adaptcp {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::tstring;

class UploadOp : public BackgroundOp {
 public:
  explicit UploadOp(tensorflow::OpKernelConstruction* context) : BackgroundOp(context) {
    tensorflow::int64 num_threads;
    OP_REQUIRES_OK(context, context->GetAttr("num_threads", &num_threads));
    OP_REQUIRES_OK(context, context->GetAttr("atomic_writes", &options_.atomic_writes));
    OP_REQUIRES_OK(context, context->GetAttr("resume", &options_.resume));
    options_.threads = static_cast<size_t>(num_threads);
  }

 protected:
  Status Prepare(OpKernelContext* context, Work* work) override {
    const auto sources = context->input(0).flat<tstring>();
    const auto targets = context->input(1).flat<tstring>();
    const auto bytes = context->input(2).flat<tensorflow::int64>();
    if (targets.size() != sources.size() || bytes.size() != sources.size()) {
      return InvalidArgument("sources, targets and bytes: expected ", sources.size(),
                             " elements each, received ", targets.size(), " targets and ",
                             bytes.size(), " sizes");
    }
    std::vector<UploadFile> files;
    for (int64_t i = 0; i < sources.size(); ++i) {
      files.push_back(
          {std::string(sources(i)), std::string(targets(i)), static_cast<uint64_t>(bytes(i))});
    }
    *work = [this, files](std::string* json) {
      UploadResult result;
      const Status status = Upload(Files(), files, options_, &result);
      *json = Concat("{\"files\": ", result.files, ", \"bytes\": ", result.bytes,
                     ", \"retries\": ", result.retries, "}");
      return status;
    };
    return Status::OK();
  }

 private:
  UploadOptions options_;
};

REGISTER_KERNEL_BUILDER(Name("AdaptcpUpload").Device(tensorflow::DEVICE_CPU), UploadOp);

}  // namespace
}  // namespace adaptcp
