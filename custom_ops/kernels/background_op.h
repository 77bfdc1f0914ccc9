// SPDX-License-Identifier: Apache-2.0
// What ops have in common that read or write files for seconds.

#ifndef ADAPTCP_KERNELS_BACKGROUND_OP_H_
#define ADAPTCP_KERNELS_BACKGROUND_OP_H_

#include <functional>
#include <string>

#include "custom_ops/base/status.h"
#include "custom_ops/io/file_system.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adaptcp {

// TensorFlow's files; lives for ever.
FileSystem* Files();

// Works on a thread of its own, since it must not hold one that executes training ops, and outputs
// a JSON object.
class BackgroundOp : public tensorflow::AsyncOpKernel {
 public:
  using tensorflow::AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) final;

 protected:
  using Work = std::function<Status(std::string* json)>;

  // Reads the inputs, on the thread that executes the op; `work` then runs on the other one, while
  // `context` lives.
  virtual Status Prepare(tensorflow::OpKernelContext* context, Work* work) = 0;
};

}  // namespace adaptcp

#endif  // ADAPTCP_KERNELS_BACKGROUND_OP_H_
