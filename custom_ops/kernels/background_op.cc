// SPDX-License-Identifier: Apache-2.0
// The thread of an op that reads or writes files.

#include "custom_ops/kernels/background_op.h"

#include "custom_ops/io/tf_file_system.h"
#include "custom_ops/kernels/table_group_resource.h"
#include "tensorflow/core/platform/tstring.h"

namespace adaptcp {

FileSystem* Files() {
  static TfFileSystem* const files = new TfFileSystem;
  return files;
}

void BackgroundOp::ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) {
  Work work;
  OP_REQUIRES_OK_ASYNC(context, ToTensorFlow(Prepare(context, &work)), done);
  context->env()->SchedClosure([context, done, work] {
    std::string json;
    OP_REQUIRES_OK_ASYNC(context, ToTensorFlow(work(&json)), done);
    tensorflow::Tensor* output;
    OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, tensorflow::TensorShape({}), &output),
                         done);
    output->scalar<tensorflow::tstring>()() = json;
    done();
  });
}

}  // namespace adaptcp
