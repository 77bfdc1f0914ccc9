// SPDX-License-Identifier: Apache-2.0
// Ops of updates: tracked insert and remove, and the brackets around what TFRA changes itself.

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace adaptcp {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// (group, table, keys): handles are scalars, keys have any shape.
tensorflow::Status HandlesAndKeys(InferenceContext* c) {
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &unused));
  return c->WithRank(c->input(1), 0, &unused);
}

// Values have the keys' shape and one more dimension.
tensorflow::Status HandlesKeysAndValues(InferenceContext* c) {
  TF_RETURN_IF_ERROR(HandlesAndKeys(c));
  const ShapeHandle keys = c->input(2);
  const ShapeHandle values = c->input(3);
  if (!c->RankKnown(keys) || !c->RankKnown(values)) return tensorflow::Status();
  ShapeHandle prefix, unused;
  TF_RETURN_IF_ERROR(c->WithRank(values, c->Rank(keys) + 1, &unused));
  TF_RETURN_IF_ERROR(c->Subshape(values, 0, c->Rank(keys), &prefix));
  return c->Merge(keys, prefix, &unused);
}

tensorflow::Status GroupOnly(InferenceContext* c) {
  ShapeHandle unused;
  return c->WithRank(c->input(0), 0, &unused);
}

}  // namespace

REGISTER_OP("AdaptcpInsert")
    .Input("group: resource")
    .Input("table: resource")
    .Input("keys: key_dtype")
    .Input("values: value_dtype")
    .Attr("key_dtype: type")
    .Attr("value_dtype: type")
    .Attr("table_index: int >= 0")
    .Attr("keep_values: bool = false")
    .SetIsStateful()
    .SetShapeFn(HandlesKeysAndValues)
    .Doc(R"doc(
Inserts rows into a table of a group. Rows that an active cut still needs are saved first, in all
tables of the group; then the keys are marked as updated in the current interval.

group: [] resource of AdaptcpTableGroup.
table: [] resource, attached as number table_index.
keys: [...] keys, of the group's key dtype; duplicates are allowed, the last one wins.
values: [..., dim] rows of the table's dtype.
keep_values: whether TensorFlow alone can change the memory of `values`, unlike that of a NumPy array.
  It is then kept for a while, so that a cut can copy rows from there.
)doc");

REGISTER_OP("AdaptcpRemove")
    .Input("group: resource")
    .Input("table: resource")
    .Input("keys: key_dtype")
    .Attr("key_dtype: type")
    .Attr("table_index: int >= 0")
    .SetIsStateful()
    .SetShapeFn(HandlesAndKeys)
    .Doc(R"doc(
Removes rows from a table of a group, after saving and marking them as AdaptcpInsert does. A key that
is then in no table of the group leaves a tombstone in the next checkpoint.

group: [] resource of AdaptcpTableGroup.
table: [] resource, attached as number table_index.
keys: [...] keys, of the group's key dtype; absent keys are ignored.
)doc");

REGISTER_OP("AdaptcpWillUpdate")
    .Input("group: resource")
    .Input("keys: key_dtype")
    .Attr("key_dtype: type")
    .SetIsStateful()
    .SetShapeFn(GroupOnly)
    .Doc(R"doc(
Tells that rows will soon be updated, so that a drain in progress saves them first. Changes nothing
else and never waits.

group: [] resource of AdaptcpTableGroup.
keys: [...] keys, of the group's key dtype.
)doc");

REGISTER_OP("AdaptcpBeforeUpdate")
    .Input("group: resource")
    .Input("keys: key_dtype")
    .Attr("key_dtype: type")
    .SetIsStateful()
    .SetShapeFn(GroupOnly)
    .Doc(R"doc(
Saves and marks rows that an op which the group cannot run itself is about to change.

group: [] resource of AdaptcpTableGroup.
keys: [...] keys, of the group's key dtype.
)doc");

REGISTER_OP("AdaptcpAfterUpdate")
    .Input("group: resource")
    .Input("keys: key_dtype")
    .Attr("key_dtype: type")
    .SetIsStateful()
    .SetShapeFn(GroupOnly)
    .Doc(R"doc(
Marks the rows of AdaptcpBeforeUpdate again after they changed: a cut may have begun in between, and
then the next checkpoint must hold the change.

group: [] resource of AdaptcpTableGroup.
keys: [...] keys, of the group's key dtype.
)doc");

REGISTER_OP("AdaptcpBeforeReplace")
    .Input("group: resource")
    .SetIsStateful()
    .SetShapeFn(GroupOnly)
    .Doc(R"doc(
Waits until no cut needs a row any more, before whole tables are cleared or imported. No checkpoint
can begin until AdaptcpAfterReplace.

group: [] resource of AdaptcpTableGroup.
)doc");

REGISTER_OP("AdaptcpAfterReplace")
    .Input("group: resource")
    .Input("keys: key_dtype")
    .Input("tables: N * resource")
    .Attr("key_dtype: type")
    .Attr("N: int >= 1")
    .SetIsStateful()
    .SetShapeFn(GroupOnly)
    .Doc(R"doc(
Forgets all rows and takes those that are in the tables now as updated. The next checkpoint must be a
base.

group: [] resource of AdaptcpTableGroup.
keys: [...] every key of every table of the group; duplicates are allowed.
tables: [] resources of all tables of the group, so that functions order their next updates after
  this op.
)doc");

REGISTER_OP("AdaptcpAdopt")
    .Input("group: resource")
    .Input("keys: key_dtype")
    .Attr("key_dtype: type")
    .SetIsStateful()
    .SetShapeFn(GroupOnly)
    .Doc(R"doc(
Takes rows that were in the tables before tracking started as updated in the current interval.

group: [] resource of AdaptcpTableGroup.
keys: [...] keys, of the group's key dtype; duplicates are allowed.
)doc");

}  // namespace adaptcp
