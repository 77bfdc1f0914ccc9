// SPDX-License-Identifier: Apache-2.0
// Reads and writes rows through LookupInterface.

#include "custom_ops/kernels/lookup_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "custom_ops/kernels/table_group_resource.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/tstring.h"

namespace adaptcp {
namespace {

using tensorflow::DataType;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Work that a kernel hands to this device's pool runs inline, on the calling thread.
class InlineDevice : public tensorflow::DeviceBase {
 public:
  InlineDevice() : tensorflow::DeviceBase(tensorflow::Env::Default()) {
    threads_.num_threads = 1;
    threads_.workers = nullptr;
    set_tensorflow_cpu_worker_threads(&threads_);
  }

  static InlineDevice* Get() {
    static InlineDevice* const device = new InlineDevice;
    return device;
  }

 private:
  CpuWorkerThreads threads_;
};

// A context for one call of a table's Find or Insert.
class InlineContext {
 public:
  InlineContext() {
    params_.device = InlineDevice::Get();
    context_ = std::make_unique<tensorflow::OpKernelContext>(&params_, /*num_outputs=*/0);
  }
  tensorflow::OpKernelContext* get() { return context_.get(); }

 private:
  tensorflow::OpKernelContext::Params params_;
  std::unique_ptr<tensorflow::OpKernelContext> context_;
};

char* Data(Tensor* tensor) { return const_cast<char*>(tensor->tensor_data().data()); }

// Booleans are 0 or 1; every other value type takes any bytes.
Tensor Marker(DataType dtype, int64_t dim, bool other) {
  Tensor marker(dtype, TensorShape({dim}));
  const int byte = dtype == tensorflow::DT_BOOL ? (other ? 0 : 1) : (other ? 0x5A : 0xA5);
  std::memset(Data(&marker), byte, marker.TotalBytes());
  return marker;
}

}  // namespace

Status LookupTable::Create(tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface> table,
                           const std::string& name, const Tensor& initial_value,
                           KeyInterner* interner, std::unique_ptr<Table>* out) {
  TableSpec spec;
  spec.name = name;
  spec.dtype = tensorflow::DataTypeString(table->value_dtype());
  if (spec.dtype == "float") spec.dtype = "float32";
  if (spec.dtype == "double") spec.dtype = "float64";
  if (spec.dtype == "half") spec.dtype = "float16";
  if (DtypeBytes(spec.dtype) == 0) {
    return InvalidArgument("table '", name, "': rows of ", spec.dtype,
                           " cannot be checkpointed; expected a number type of fixed width");
  }
  if (table->value_shape().dims() != 1) {
    return InvalidArgument("table '", name, "': expected rows that are vectors, received shape ",
                           table->value_shape().DebugString());
  }
  spec.dim = static_cast<uint32_t>(table->value_shape().dim_size(0));
  spec.row_bytes = spec.dim * DtypeBytes(spec.dtype);
  if (initial_value.dtype() != table->value_dtype() ||
      initial_value.TotalBytes() != spec.row_bytes) {
    return InvalidArgument("table '", name, "': expected an initial value of ", spec.dtype, " x ",
                           spec.dim, ", received ", initial_value.DebugString(0));
  }
  spec.initial_value = std::string(initial_value.tensor_data());
  out->reset(new LookupTable(std::move(table), std::move(spec), interner));
  return Status::OK();
}

LookupTable::LookupTable(tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface> table,
                         TableSpec spec, KeyInterner* interner)
    : table_(std::move(table)),
      spec_(std::move(spec)),
      interner_(interner),
      key_dtype_(table_->key_dtype()),
      value_dtype_(table_->value_dtype()),
      marker_(Marker(value_dtype_, spec_.dim, /*other=*/false)),
      other_marker_(Marker(value_dtype_, spec_.dim, /*other=*/true)) {}

Tensor LookupTable::KeyTensor(const int64_t* keys, size_t n) const {
  Tensor tensor(key_dtype_, TensorShape({static_cast<int64_t>(n)}));
  switch (key_dtype_) {
    case tensorflow::DT_INT64:
      std::memcpy(Data(&tensor), keys, n * sizeof(int64_t));
      break;
    case tensorflow::DT_INT32:
      std::copy_n(keys, n, tensor.flat<tensorflow::int32>().data());
      break;
    default: {
      auto flat = tensor.flat<tensorflow::tstring>();
      for (size_t i = 0; i < n; ++i) flat(i) = interner_->KeyOf(keys[i]);
    }
  }
  return tensor;
}

Status LookupTable::Find(const Tensor& keys, const Tensor& marker, Tensor* rows) const {
  *rows = Tensor(value_dtype_, TensorShape({keys.NumElements(), spec_.dim}));
  InlineContext context;
  return FromTensorFlow(table_->Find(context.get(), keys, rows, marker));
}

Status LookupTable::Read(const int64_t* keys, size_t n, char* values, uint8_t* present) {
  if (n == 0) return Status::OK();
  Tensor rows;
  ADAPTCP_RETURN_IF_ERROR(Find(KeyTensor(keys, n), marker_, &rows));
  std::memcpy(values, Data(&rows), n * spec_.row_bytes);
  std::memset(present, 1, n);
  const char* marker = marker_.tensor_data().data();
  std::vector<size_t> marked;
  for (size_t i = 0; i < n; ++i) {
    if (std::memcmp(values + i * spec_.row_bytes, marker, spec_.row_bytes) == 0) {
      marked.push_back(i);
    }
  }
  return marked.empty() ? Status::OK() : ResolveMarked(keys, marked, values, present);
}

Status LookupTable::ResolveMarked(const int64_t* keys, const std::vector<size_t>& marked,
                                  char* values, uint8_t* present) const {
  std::vector<int64_t> marked_keys;
  for (size_t i : marked) marked_keys.push_back(keys[i]);
  Tensor rows;
  ADAPTCP_RETURN_IF_ERROR(
      Find(KeyTensor(marked_keys.data(), marked_keys.size()), other_marker_, &rows));
  const char* marker = marker_.tensor_data().data();
  for (size_t m = 0; m < marked.size(); ++m) {
    if (std::memcmp(Data(&rows) + m * spec_.row_bytes, marker, spec_.row_bytes) == 0) continue;
    present[marked[m]] = 0;
    std::memset(values + marked[m] * spec_.row_bytes, 0, spec_.row_bytes);
  }
  return Status::OK();
}

Status LookupTable::Write(const int64_t* keys, size_t n, const char* values) {
  Tensor rows(value_dtype_, TensorShape({static_cast<int64_t>(n), spec_.dim}));
  std::memcpy(Data(&rows), values, n * spec_.row_bytes);
  const Tensor key_tensor = KeyTensor(keys, n);
  InlineContext context;
  MutexLock lock(&insert_mu_);
  return FromTensorFlow(table_->Insert(context.get(), key_tensor, rows));
}

}  // namespace adaptcp
