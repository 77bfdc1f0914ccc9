// SPDX-License-Identifier: Apache-2.0
// Keys of the engine as TensorFlow's variables have them.

#ifndef ADAPTCP_KERNELS_KEY_TENSOR_H_
#define ADAPTCP_KERNELS_KEY_TENSOR_H_

#include "custom_ops/format/row_block.h"
#include "custom_ops/format/segment_header.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace adaptcp {

tensorflow::DataType KeyDtype(KeyType type);

// Writes the keys of a block into `tensor`, of KeyDtype(type), from element `first` on.
void CopyKeys(const RowBlock& block, KeyType type, int64_t first, tensorflow::Tensor* tensor);

// The keys of a block: [rows].
tensorflow::Tensor KeyTensor(const RowBlock& block, KeyType type);

}  // namespace adaptcp

#endif  // ADAPTCP_KERNELS_KEY_TENSOR_H_
