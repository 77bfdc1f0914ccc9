// SPDX-License-Identifier: Apache-2.0
// Ops that look into segments without any table.

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace adaptcp {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status VerifyShape(InferenceContext* c) {
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &unused));
  c->set_output(0, c->Scalar());
  return tensorflow::Status();
}

tensorflow::Status ReadKeysShape(InferenceContext* c) {
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &unused));
  const ShapeHandle rows = c->Vector(c->UnknownDim());
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, rows);
  return tensorflow::Status();
}

}  // namespace

REGISTER_OP("AdaptcpVerifySegment")
    .Input("path: string")
    .Output("result: string")
    .SetIsStateful()
    .SetShapeFn(VerifyShape)
    .Doc(R"doc(
Reads every byte of a segment and checks all of its checksums, lengths and records, in the memory of
its largest record. Damage is DataLoss, which names file, offset, expected and found.

path: [] segment, in any of TensorFlow's file systems.
result: [] string, a JSON object: bytes, rows, tombstones, footer_crc.
)doc");

REGISTER_OP("AdaptcpReadSegmentKeys")
    .Input("path: string")
    .Output("keys: key_dtype")
    .Output("last_updated: int64")
    .Output("tombstones: bool")
    .Attr("key_dtype: {int64, int32, string}")
    .SetIsStateful()
    .SetShapeFn(ReadKeysShape)
    .Doc(R"doc(
Reads the key records of a segment, and none of its values.

path: [] segment, in any of TensorFlow's file systems.
keys: [n] keys of all blocks, in the order of the file; InvalidArgument when they are of another dtype.
last_updated: [n] interval of the newest update of each.
tombstones: [n] whether the key was removed.
)doc");

}  // namespace adaptcp
