// SPDX-License-Identifier: Apache-2.0
// The op that brings files of a checkpoint to remote storage.

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace adaptcp {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status UploadShape(InferenceContext* c) {
  ShapeHandle list;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &list));
  TF_RETURN_IF_ERROR(c->Merge(list, c->input(1), &list));
  TF_RETURN_IF_ERROR(c->Merge(list, c->input(2), &list));
  c->set_output(0, c->Scalar());
  return tensorflow::Status();
}

}  // namespace

REGISTER_OP("AdaptcpUpload")
    .Input("sources: string")
    .Input("targets: string")
    .Input("bytes: int64")
    .Output("result: string")
    .Attr("num_threads: int >= 1 = 4")
    .Attr("atomic_writes: bool = false")
    .Attr("resume: bool = false")
    .SetIsStateful()
    .SetShapeFn(UploadShape)
    .Doc(R"doc(
Copies files, each on one thread, and tries again a few times, after waits, when the store fails. Runs
on the machine that it is placed on, such as a parameter server. The copies are durable when the op
ends. After an error some may be there, each whole: run the op again, with `resume`.

sources: [n] files, in any of TensorFlow's file systems.
targets: [n] their copies; the directories exist.
bytes: [n] sizes of the sources; others are an error.
result: [] string, a JSON object: files, bytes (copied now), retries.
num_threads: files that are copied at once.
atomic_writes: whether the store shows files only when all of them is there, as object stores do.
  Otherwise copies are written under another name, <target>.tmp-<8 hex digits>, and renamed.
resume: whether to leave alone copies that are there, with the right size.
)doc");

}  // namespace adaptcp
