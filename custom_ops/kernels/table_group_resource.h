// SPDX-License-Identifier: Apache-2.0
// The resource behind a table group handle, and how kernels reach it.

#ifndef ADAPTCP_KERNELS_TABLE_GROUP_RESOURCE_H_
#define ADAPTCP_KERNELS_TABLE_GROUP_RESOURCE_H_

#include <memory>
#include <string>

#include "custom_ops/base/status.h"
#include "custom_ops/engine/table_group.h"
#include "tensorflow/core/framework/lookup_interface.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace adaptcp {

class TableGroupResource : public tensorflow::ResourceBase {
 public:
  TableGroupResource(const TableGroupOptions& options, tensorflow::DataType key_dtype)
      : key_dtype_(key_dtype),
        group_(options, BlockBudget::Process(), UpdateLogBudget::Process()) {}

  TableGroup* group() { return &group_; }
  tensorflow::DataType key_dtype() const { return key_dtype_; }

  std::string DebugString() const override {
    return Concat("table group '", group_.options().name, "' shard ", group_.options().shard);
  }

 private:
  const tensorflow::DataType key_dtype_;
  TableGroup group_;
};

// The engine's codes are TensorFlow's.
tensorflow::Status ToTensorFlow(const Status& status);
Status FromTensorFlow(const tensorflow::Status& status);

// The group whose handle is input number `input`; one that was destroyed or lives on another device
// is NotFound or InvalidArgument.
tensorflow::Status LookupGroup(tensorflow::OpKernelContext* context, int input,
                               tensorflow::core::RefCountPtr<TableGroupResource>* resource);

// The table whose handle is input number `input`.
tensorflow::Status LookupTable(
    tensorflow::OpKernelContext* context, int input,
    tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface>* table);

// The keys of `tensor` (any shape) as the engine wants them: int32 keys widened, string keys
// numbered. A copy, since the batch outlives the op and the tensor's memory may be that of a NumPy
// array, which a dataset's generator fills with its next keys. InvalidArgument when the dtype is
// not the group's.
tensorflow::Status ToKeyBatch(TableGroupResource* resource, const tensorflow::Tensor& tensor,
                              KeyBatch* batch);

// The same for keys of the group's dtype, but without string keys that no row ever had.
KeyBatch ToKnownKeys(TableGroupResource* resource, const tensorflow::Tensor& tensor);

}  // namespace adaptcp

#endif  // ADAPTCP_KERNELS_TABLE_GROUP_RESOURCE_H_
