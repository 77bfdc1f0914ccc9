// SPDX-License-Identifier: Apache-2.0
// A TensorFlow lookup table as the engine sees it.

#ifndef ADAPTCP_KERNELS_LOOKUP_TABLE_H_
#define ADAPTCP_KERNELS_LOOKUP_TABLE_H_

#include <memory>
#include <string>
#include <vector>

#include "custom_ops/base/mutex.h"
#include "custom_ops/engine/key_interner.h"
#include "custom_ops/engine/table.h"
#include "tensorflow/core/framework/lookup_interface.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/refcount.h"

namespace adaptcp {

// Calls Find and Insert with a context of its own, whose device has no thread pool: TFRA's tables
// shard their work over the calling context's pool and wait for it, which under a stripe's mutex
// would deadlock with a pool thread that waits for the mutex.
class LookupTable : public Table {
 public:
  // Refuses, with InvalidArgument, what cannot be stored: values that are not of a fixed width, or
  // an initial value that does not fit. `interner` is used by string keys and outlives the table.
  static Status Create(tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface> table,
                       const std::string& name, const tensorflow::Tensor& initial_value,
                       KeyInterner* interner, std::unique_ptr<Table>* out);

  const TableSpec& spec() const override { return spec_; }
  Status Read(const int64_t* keys, size_t n, char* values, uint8_t* present) override;
  Status Write(const int64_t* keys, size_t n, const char* values) override
      TF_LOCKS_EXCLUDED(insert_mu_);
  size_t Size() override { return table_->size(); }

 private:
  LookupTable(tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface> table,
              TableSpec spec, KeyInterner* interner);

  tensorflow::Tensor KeyTensor(const int64_t* keys, size_t n) const;
  // Finds n keys into a new tensor; absent rows become `marker`.
  Status Find(const tensorflow::Tensor& keys, const tensorflow::Tensor& marker,
              tensorflow::Tensor* rows) const;
  Status ResolveMarked(const int64_t* keys, const std::vector<size_t>& marked, char* values,
                       uint8_t* present) const;

  // Constant after construction.
  const tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface> table_;
  const TableSpec spec_;
  KeyInterner* const interner_;
  const tensorflow::DataType key_dtype_;
  const tensorflow::DataType value_dtype_;
  // Two rows that differ in every byte: a result that equals one default but not the other is a
  // stored row. LookupInterface has no other way to tell whether a key is there.
  tensorflow::Tensor marker_;
  tensorflow::Tensor other_marker_;

  // Held while rows are inserted: a TFRA table that grows meanwhile loses a key now and then, and
  // has another one twice, when two threads insert.
  Mutex insert_mu_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_KERNELS_LOOKUP_TABLE_H_
