// SPDX-License-Identifier: Apache-2.0
// Ops of a cut's life (begin, drain, end) and of restore.

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace adaptcp {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// Inputs [from, to) are scalars.
tensorflow::Status Scalars(InferenceContext* c, int from, int to) {
  ShapeHandle unused;
  for (int i = from; i < to; ++i) TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &unused));
  return tensorflow::Status();
}

tensorflow::Status AllScalars(InferenceContext* c) { return Scalars(c, 0, c->num_inputs()); }

tensorflow::Status ScalarsToScalar(InferenceContext* c) {
  TF_RETURN_IF_ERROR(AllScalars(c));
  c->set_output(0, c->Scalar());
  return tensorflow::Status();
}

tensorflow::Status RestoreShape(InferenceContext* c) {
  constexpr int kListInputs = 6;
  const int first_list = c->num_inputs() - kListInputs;
  TF_RETURN_IF_ERROR(Scalars(c, 0, first_list));
  ShapeHandle files;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(first_list), 1, &files));
  for (int i = first_list + 1; i < c->num_inputs(); ++i) {
    TF_RETURN_IF_ERROR(c->Merge(c->input(i), files, &files));
  }
  c->set_output(0, c->Scalar());
  return tensorflow::Status();
}

}  // namespace

REGISTER_OP("AdaptcpBegin")
    .Input("groups: N * resource")
    .Input("interval: int64")
    .Input("base: bool")
    .Input("hot_threshold: float")
    .Input("hysteresis: float")
    .Input("rate_half_life: float")
    .Attr("N: int >= 1")
    .Attr("encoding: string = 'raw'")
    .Attr("slot_encoding: string = 'raw'")
    .SetIsStateful()
    .SetShapeFn(AllScalars)
    .Doc(R"doc(
Takes a cut of all groups at one instant. Copies nothing; every row keeps its value of this instant
until AdaptcpDrain or an update has saved it. On an error no group has begun.

groups: [] resources of AdaptcpTableGroup.
interval: [] the interval that the cut closes; at least the current one of every group. A group made
  later than the others skips ahead.
base: [] whether the checkpoint holds every live row, or only what was updated.
hot_threshold: [] rows with at least this many updates per interval go into the differential; above 1
  none does.
hysteresis: [] relative width of the band around hot_threshold in which a row keeps its class.
rate_half_life: [] after how many intervals, from this cut on, an update counts half in the update rate
  of its row.
encoding: how float32 and float64 values of the first table, the parameter, are stored: "raw", or, not
  exact, "float16", "bfloat16", or "int2", "int3", "int4", "int8": so many bits a value, between the ends
  of its vector's range. With the latter a vector that holds a value which is not finite comes back as
  NaN.
slot_encoding: the same, for the other tables.
)doc");

REGISTER_OP("AdaptcpCopyRows")
    .Input("group: resource")
    .SetIsStateful()
    .SetShapeFn(AllScalars)
    .Doc(R"doc(
Copies all rows of the active cut into memory, so that nothing is left to be saved by updates;
AdaptcpDrain then only writes. For snapshots during which training stands still.

group: [] resource of AdaptcpTableGroup, with an active cut that AdaptcpDrain has not begun to drain.
)doc");

REGISTER_OP("AdaptcpDrain")
    .Input("group: resource")
    .Input("directory: string")
    .Input("file_prefix: string")
    .Output("result: string")
    .Attr("max_writers: int >= 1 = 1")
    .SetIsStateful()
    .SetShapeFn(ScalarsToScalar)
    .Doc(R"doc(
Saves the rows of the active cut that no update has saved, and finishes the cut's segments: they are
durable when the op ends. Runs beside training.

group: [] resource of AdaptcpTableGroup, with an active cut.
directory: [] existing directory, in any of TensorFlow's file systems.
file_prefix: [] segments are named file_prefix-<kind>.acp and, of writers after the first,
  file_prefix-<kind>-p<number>.acp; characters that need no JSON escape.
result: [] string, a JSON object: segments (list of file_name, kind, bytes, rows, tombstones,
  footer_crc), rows_hot, rows_cold, tombstones, rows_saved_on_update, rows_drained,
  rows_prefetched, stall_nanos.
max_writers: threads that write, each into segments of its own, when there is enough to write.
)doc");

REGISTER_OP("AdaptcpEndCut")
    .Input("group: resource")
    .Input("committed: bool")
    .SetIsStateful()
    .SetShapeFn(AllScalars)
    .Doc(R"doc(
Ends the active cut. The rows of a cut that was not committed will be in the next one.

group: [] resource of AdaptcpTableGroup.
committed: [] whether the checkpoint's manifest is durable.
)doc");

REGISTER_OP("AdaptcpRestore")
    .Input("groups: N * resource")
    .Input("interval: int64")
    .Input("paths: string")
    .Input("kinds: string")
    .Input("intervals: int64")
    .Input("shards: int64")
    .Input("bytes: int64")
    .Input("footer_crcs: int64")
    .Output("result: string")
    .Attr("N: int >= 1")
    .Attr("saved_shards: int >= 1 = 1")
    .Attr("partition: list(func) >= 0 = []")
    .Attr("slots: bool = true")
    .Attr("num_threads: int >= 1 = 2")
    .Attr("read_threads: int >= 1 = 32")
    .SetIsStateful()
    .SetShapeFn(RestoreShape)
    .Doc(R"doc(
Loads a chain of segments into the empty tables of a group's shards and rebuilds their trackers. There
may be more or fewer shards than at the time of the save.

groups: [] resources of AdaptcpTableGroup: every shard of one group, in order.
interval: [] of the checkpoint.
paths: [n] segments of all shards: the differentials, the increments by falling interval, the bases.
kinds: [n] "base", "increment" or "differential".
intervals: [n] of each segment.
shards: [n] the shard of each segment, at the time of the save.
bytes: [n] size of each segment.
footer_crcs: [n] checksum of each segment's footer, as AdaptcpDrain told it.
result: [] string, a JSON object: rows, stale_rows, bytes_read, tables_without_rows (names).
saved_shards: how many shards there were.
partition: one function from keys: [k] to the number of the shard of each, [k] int32; needed if N > 1.
slots: false loads the first table, the parameter, only.
num_threads: blocks that are inserted at once.
read_threads: blocks that are read at once.
)doc");

REGISTER_OP("AdaptcpCompact")
    .Input("interval: int64")
    .Input("directory: string")
    .Input("file_prefix: string")
    .Input("paths: string")
    .Input("kinds: string")
    .Input("intervals: int64")
    .Input("shards: int64")
    .Input("bytes: int64")
    .Input("footer_crcs: int64")
    .Output("result: string")
    .Attr("key_dtype: {int64, int32, string}")
    .Attr("group_name: string")
    .Attr("shard: int >= 0 = 0")
    .Attr("num_shards: int >= 1 = 1")
    .Attr("num_threads: int >= 1 = 2")
    .SetIsStateful()
    .SetShapeFn(RestoreShape)
    .Doc(R"doc(
Merges the chain of one shard into segments of one base, from file to file, without any table. A restore
of them gives the same rows, slots and trackers.

interval: [] of the checkpoint, and so of the base.
directory: [] existing directory, in any of TensorFlow's file systems.
file_prefix: [] as of AdaptcpDrain.
paths: [n] segments of this shard: the differential, the increments by falling interval, the base.
kinds: [n] "base", "increment" or "differential".
intervals: [n] of each segment.
shards: [n] the shard of each segment.
bytes: [n] size of each segment.
footer_crcs: [n] checksum of each segment's footer, as AdaptcpDrain told it.
result: [] string, a JSON object: segments (as of AdaptcpDrain), rows, stale_rows, bytes_read.
key_dtype: of the group's keys.
group_name: of the group.
shard: its number.
num_shards: how many the group has.
num_threads: threads that read; each writes a segment of its own.
)doc");

}  // namespace adaptcp
