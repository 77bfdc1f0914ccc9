// SPDX-License-Identifier: Apache-2.0
// Ops of saving on the input thread: a target that datasets know, the groups bound to it later.

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace adaptcp {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ScalarShape;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("AdaptcpPrefetchTarget")
    .Output("target: resource")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"doc(
Makes what stands for a table group in a dataset that is built before the group is. It lives as long
as somebody holds the handle.

target: [] resource, new at each run.
)doc");

REGISTER_OP("AdaptcpBindPrefetchTarget")
    .Input("target: resource")
    .Input("groups: N * resource")
    .Attr("N: int >= 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle unused;
      for (int i = 0; i < c->num_inputs(); ++i) {
        TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &unused));
      }
      return tensorflow::Status();
    })
    .Doc(R"doc(
Tells which shards a target stands for, in place of those it was told before.

target: [] resource of AdaptcpPrefetchTarget.
groups: [] resources of AdaptcpTableGroup, the shards of one group.
)doc");

REGISTER_OP("AdaptcpSaveBeforeUpdate")
    .Input("target: resource")
    .Input("keys: key_dtype")
    .Attr("key_dtype: {int32, int64, string}")
    .Attr("window: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle unused;
      return c->WithRank(c->input(0), 0, &unused);
    })
    .Doc(R"doc(
Saves rows that active cuts still need and that will soon be updated, on the thread that runs it:
one that prepares input. Changes nothing. A cut that begins later has the latest batches saved
first. Does nothing for a target that is not bound.

target: [] resource of AdaptcpPrefetchTarget.
keys: [...] keys, of the groups' key dtype; duplicates are allowed, and keys without a row. Each
  shard picks its own.
window: how many of the latest batches, this one included, training may still have to use.
)doc");

}  // namespace adaptcp
