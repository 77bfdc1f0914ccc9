// SPDX-License-Identifier: Apache-2.0
// Kernels that look into segments without any table.

#include <algorithm>
#include <memory>
#include <string>

#include "custom_ops/engine/segment_reader.h"
#include "custom_ops/kernels/background_op.h"
#include "custom_ops/kernels/key_tensor.h"
#include "custom_ops/kernels/segment_files.h"
#include "custom_ops/kernels/table_group_resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace adaptcp {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class VerifySegmentOp : public BackgroundOp {
 public:
  using BackgroundOp::BackgroundOp;

 protected:
  Status Prepare(OpKernelContext* context, Work* work) override {
    const std::string path = StringInput(context, 0);
    *work = [path](std::string* json) {
      std::unique_ptr<SegmentReader> reader;
      ADAPTCP_RETURN_IF_ERROR(SegmentReader::Open(Files(), path, &reader));
      ADAPTCP_RETURN_IF_ERROR(reader->Verify());
      *json = Concat("{\"bytes\": ", reader->bytes(), ", \"rows\": ", reader->rows(),
                     ", \"tombstones\": ", reader->tombstones(),
                     ", \"footer_crc\": ", reader->footer_crc(), "}");
      return Status::OK();
    };
    return Status::OK();
  }
};

// On a thread of its own, as a BackgroundOp.
class ReadSegmentKeysOp : public tensorflow::AsyncOpKernel {
 public:
  explicit ReadSegmentKeysOp(tensorflow::OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("key_dtype", &key_dtype_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const std::string path = StringInput(context, 0);
    context->env()->SchedClosure([this, context, done, path] {
      OP_REQUIRES_OK_ASYNC(context, Read(context, path), done);
      done();
    });
  }

 private:
  tensorflow::Status Read(OpKernelContext* context, const std::string& path) const {
    std::unique_ptr<SegmentReader> reader;
    TF_RETURN_IF_ERROR(ToTensorFlow(SegmentReader::Open(Files(), path, &reader)));
    const KeyType type = reader->header().key_type;
    if (KeyDtype(type) != key_dtype_) {
      return tensorflow::errors::InvalidArgument(path, ": expected ", DataTypeString(key_dtype_),
                                                 " keys, found ", KeyTypeName(type));
    }
    const auto n = static_cast<tensorflow::int64>(reader->rows() + reader->tombstones());
    Tensor* keys;
    Tensor* last_updated;
    Tensor* tombstones;
    TF_RETURN_IF_ERROR(context->allocate_output(0, {n}, &keys));
    TF_RETURN_IF_ERROR(context->allocate_output(1, {n}, &last_updated));
    TF_RETURN_IF_ERROR(context->allocate_output(2, {n}, &tombstones));
    int64_t first = 0;
    for (size_t b = 0; b < reader->num_blocks(); ++b) {
      RowBlock block;
      TF_RETURN_IF_ERROR(ToTensorFlow(reader->ReadKeys(b, &block)));
      CopyKeys(block, type, first, keys);
      std::copy(block.last_updated.begin(), block.last_updated.end(),
                last_updated->flat<tensorflow::int64>().data() + first);
      std::fill_n(tombstones->flat<bool>().data() + first, block.rows(),
                  reader->block(b).tombstones);
      first += static_cast<int64_t>(block.rows());
    }
    return tensorflow::Status();
  }

  tensorflow::DataType key_dtype_;
};

REGISTER_KERNEL_BUILDER(Name("AdaptcpVerifySegment").Device(tensorflow::DEVICE_CPU),
                        VerifySegmentOp);
REGISTER_KERNEL_BUILDER(Name("AdaptcpReadSegmentKeys").Device(tensorflow::DEVICE_CPU),
                        ReadSegmentKeysOp);

}  // namespace
}  // namespace adaptcp
