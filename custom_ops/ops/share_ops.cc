// SPDX-License-Identifier: Apache-2.0
// Ops that give the table group of a TF1 session to the rest of the process.

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace adaptcp {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ScalarShape;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("AdaptcpShareTableGroup")
    .Input("group: resource")
    .Output("token: string")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"doc(
Lets one run of AdaptcpTakeTableGroup, in whatever session or eagerly, have a group. Until then the
group stays alive.

group: [] resource of AdaptcpTableGroup.
token: [] string, new at each run, for AdaptcpTakeTableGroup in the same process.
)doc");

REGISTER_OP("AdaptcpTakeTableGroup")
    .Input("token: string")
    .Output("group: resource")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle unused;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &unused));
      c->set_output(0, c->Scalar());
      return tensorflow::Status();
    })
    .Doc(R"doc(
Returns a handle to a group that was shared. The group, with its tables, lives as long as somebody
holds the handle, though its session be closed.

token: [] string of AdaptcpShareTableGroup.
group: [] resource; ops on it do what they do on the handle that was shared.
)doc");

}  // namespace adaptcp
