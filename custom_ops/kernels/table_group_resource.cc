// SPDX-License-Identifier: Apache-2.0
// Lookup and conversion shared by the kernels.

#include "custom_ops/kernels/table_group_resource.h"

#include <utility>
#include <vector>

#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/tstring.h"

namespace adaptcp {
namespace {

// `add_string(key, keys)` numbers string keys.
template <typename AddString>
KeyBatch Convert(const tensorflow::Tensor& tensor, AddString add_string) {
  auto keys = std::make_shared<std::vector<int64_t>>();
  keys->reserve(tensor.NumElements());
  if (tensor.dtype() == tensorflow::DT_INT64) {
    const auto flat = tensor.flat<tensorflow::int64>();
    keys->assign(flat.data(), flat.data() + flat.size());
  } else if (tensor.dtype() == tensorflow::DT_INT32) {
    const auto flat = tensor.flat<tensorflow::int32>();
    keys->assign(flat.data(), flat.data() + flat.size());
  } else {
    const auto flat = tensor.flat<tensorflow::tstring>();
    for (int64_t i = 0; i < flat.size(); ++i) {
      add_string(std::string_view(flat(i).data(), flat(i).size()), keys.get());
    }
  }
  KeyBatch batch;
  batch.keys = keys->data();
  batch.size = keys->size();
  batch.owner = std::move(keys);
  return batch;
}

}  // namespace

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
  KeyInterner* interner = resource->group()->interner();
  *batch = Convert(tensor, [interner](std::string_view key, std::vector<int64_t>* keys) {
    keys->push_back(interner->Intern(key));
  });
  return tensorflow::Status();
}

KeyBatch ToKnownKeys(TableGroupResource* resource, const tensorflow::Tensor& tensor) {
  KeyInterner* interner = resource->group()->interner();
  return Convert(tensor, [interner](std::string_view key, std::vector<int64_t>* keys) {
    int64_t id;
    if (interner->Find(key, &id)) keys->push_back(id);
  });
}

}  // namespace adaptcp
