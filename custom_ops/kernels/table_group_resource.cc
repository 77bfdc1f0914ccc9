// SPDX-License-Identifier: Apache-2.0
// Lookup and conversion shared by the kernels.

#include "custom_ops/kernels/table_group_resource.h"

#include <utility>
#include <vector>

#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/tstring.h"

namespace adaptcp {

tensorflow::Status ToTensorFlow(const Status& status) {
  if (status.ok()) return tensorflow::Status();
  return tensorflow::Status(static_cast<absl::StatusCode>(status.code()), status.message());
}

Status FromTensorFlow(const tensorflow::Status& status) {
  if (status.ok()) return Status::OK();
  return Status(static_cast<StatusCode>(status.code()), status.ToString());
}

tensorflow::Status LookupGroup(tensorflow::OpKernelContext* context, int input,
                               tensorflow::core::RefCountPtr<TableGroupResource>* resource) {
  return tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, input), resource);
}

tensorflow::Status LookupTable(
    tensorflow::OpKernelContext* context, int input,
    tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface>* table) {
  return tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, input), table);
}

tensorflow::Status ToKeyBatch(TableGroupResource* resource, const tensorflow::Tensor& tensor,
                              KeyBatch* batch) {
  if (tensor.dtype() != resource->key_dtype()) {
    return tensorflow::errors::InvalidArgument("keys of ", resource->DebugString(), ": expected ",
                                               tensorflow::DataTypeString(resource->key_dtype()),
                                               ", received ",
                                               tensorflow::DataTypeString(tensor.dtype()));
  }
  batch->size = tensor.NumElements();
  auto keys = std::make_shared<std::vector<int64_t>>();
  keys->reserve(batch->size);
  if (tensor.dtype() == tensorflow::DT_INT64) {
    const auto flat = tensor.flat<tensorflow::int64>();
    keys->assign(flat.data(), flat.data() + flat.size());
  } else if (tensor.dtype() == tensorflow::DT_INT32) {
    const auto flat = tensor.flat<tensorflow::int32>();
    keys->assign(flat.data(), flat.data() + flat.size());
  } else {
    const auto flat = tensor.flat<tensorflow::tstring>();
    KeyInterner* interner = resource->group()->interner();
    for (int64_t i = 0; i < flat.size(); ++i) {
      keys->push_back(interner->Intern(std::string_view(flat(i).data(), flat(i).size())));
    }
  }
  batch->keys = keys->data();
  batch->owner = std::move(keys);
  return tensorflow::Status();
}

}  // namespace adaptcp
