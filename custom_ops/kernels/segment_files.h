// SPDX-License-Identifier: Apache-2.0
// Segments as inputs and outputs of ops: lists of tensors, and JSON.

#ifndef ADAPTCP_KERNELS_SEGMENT_FILES_H_
#define ADAPTCP_KERNELS_SEGMENT_FILES_H_

#include <string>
#include <vector>

#include "custom_ops/engine/cut.h"
#include "custom_ops/engine/segment_chain.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adaptcp {

// A scalar of type string.
std::string StringInput(tensorflow::OpKernelContext* context, int input);

// Reads six inputs of one length, number `first` and those after it: paths, kinds, intervals,
// shards, bytes and footer_crcs. InvalidArgument when they do not fit together.
Status ReadSegmentFiles(tensorflow::OpKernelContext* context, int first,
                        std::vector<RestoreFile>* files);

// A JSON array of what was written.
std::string SegmentsJson(const std::vector<WrittenSegment>& segments);

}  // namespace adaptcp

#endif  // ADAPTCP_KERNELS_SEGMENT_FILES_H_
