// SPDX-License-Identifier: Apache-2.0
// Copies of keys.

#include "custom_ops/kernels/key_tensor.h"

#include <algorithm>

#include "tensorflow/core/platform/tstring.h"

namespace adaptcp {

tensorflow::DataType KeyDtype(KeyType type) {
  return type == KeyType::kString  ? tensorflow::DT_STRING
         : type == KeyType::kInt32 ? tensorflow::DT_INT32
                                   : tensorflow::DT_INT64;
}

void CopyKeys(const RowBlock& block, KeyType type, int64_t first, tensorflow::Tensor* tensor) {
  if (type == KeyType::kString) {
    auto* out = tensor->flat<tensorflow::tstring>().data() + first;
    std::copy(block.string_keys.begin(), block.string_keys.end(), out);
  } else if (type == KeyType::kInt32) {
    std::transform(block.keys.begin(), block.keys.end(), tensor->flat<int32_t>().data() + first,
                   [](int64_t key) { return static_cast<int32_t>(key); });
  } else {
    std::copy(block.keys.begin(), block.keys.end(),
              tensor->flat<tensorflow::int64>().data() + first);
  }
}

tensorflow::Tensor KeyTensor(const RowBlock& block, KeyType type) {
  tensorflow::Tensor keys(KeyDtype(type), {static_cast<tensorflow::int64>(block.rows())});
  CopyKeys(block, type, 0, &keys);
  return keys;
}

}  // namespace adaptcp
