// SPDX-License-Identifier: Apache-2.0
// Op that tells which TensorFlow this library was compiled against.

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace adaptcp {

REGISTER_OP("AdaptcpBuildInfo")
    .Output("tensorflow_version: string")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Tells which TensorFlow this library was compiled against.

tensorflow_version: [] string, such as "2.15.1".
)doc");

}  // namespace adaptcp
