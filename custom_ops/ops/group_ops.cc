// SPDX-License-Identifier: Apache-2.0
// Ops that make a table group, attach tables to it and describe it.

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace adaptcp {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ScalarShape;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("AdaptcpTableGroup")
    .Output("group: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Attr("key_dtype: {int32, int64, string}")
    .Attr("group_name: string")
    .Attr("shard: int >= 0 = 0")
    .Attr("num_shards: int >= 1 = 1")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"doc(
Makes a handle to a table group: the tracker of the rows that a parameter table and its slot tables
share, on one shard.

group: [] resource. Must live on the device of its tables.
key_dtype: dtype of the tables' keys.
group_name: name by which segments and manifests know the group.
shard: number of this shard, from 0.
num_shards: number of shards of the group.
)doc");

REGISTER_OP("AdaptcpAttachTable")
    .Input("group: resource")
    .Input("table: resource")
    .Input("initial_value: value_dtype")
    .Attr("value_dtype: type")
    .Attr("table_index: int >= 0")
    .Attr("table_name: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle unused;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &unused));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &unused));
      return c->WithRank(c->input(2), 1, &unused);
    })
    .Doc(R"doc(
Adds a table to a group. Attaching the same table again does nothing.

group: [] resource of AdaptcpTableGroup.
table: [] resource of a tensorflow::lookup::LookupInterface.
initial_value: [dim] row that the table answers for a key it does not hold.
table_index: number of the table in the group; the parameter table is 0, the rest follow in order.
table_name: name of the table in segments, unique in the group.
)doc");

REGISTER_OP("AdaptcpGroupStats")
    .Input("group: resource")
    .Output("stats: string")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"doc(
Describes a group.

group: [] resource of AdaptcpTableGroup.
stats: [] string, a JSON object: rows (int), table_rows (of each table just before),
  rows_to_save (int, at most, by a cut now that is not a base), tracker_bytes (int), interval (int,
  the open one), base_required (bool), cut_active (bool), restored_rows (int, by the latest restore so far).
)doc");

REGISTER_OP("AdaptcpRateHistogram")
    .Input("group: resource")
    .Output("rows: double")
    .Output("rate_sums: double")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle unused;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &unused));
      c->set_output(0, c->Vector(64));
      c->set_output(1, c->Vector(64));
      return tensorflow::Status();
    })
    .Doc(R"doc(
Tells how the update rates of a group's rows are distributed when the last closed interval ended.
Rates are updates per interval, from 0 to 1; bins are logarithmic, four an octave from 1 down.
Groups of many rows are sampled.

group: [] resource of AdaptcpTableGroup.
rows: [64] double, the number of rows of each bin.
rate_sums: [64] double, the rates of those rows added up.
)doc");

}  // namespace adaptcp
