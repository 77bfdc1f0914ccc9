// SPDX-License-Identifier: Apache-2.0
// Tables of TensorFlow as the engine sees them.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "custom_ops/engine/key_interner.h"
#include "custom_ops/kernels/lookup_table.h"
#include "tensorflow/core/framework/lookup_interface.h"

namespace adaptcp {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Notes how many inserts go on at once.
class OverlapTable : public tensorflow::lookup::LookupInterface {
 public:
  int most() const { return most_; }
  int inserted() const { return inserted_; }

  tensorflow::Status Insert(OpKernelContext*, const Tensor& keys, const Tensor&) override {
    const int now = ++inserting_;
    int most = most_;
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    inserted_ += static_cast<int>(keys.NumElements());
    --inserting_;
    return tensorflow::OkStatus();
  }
  tensorflow::Status Find(OpKernelContext*, const Tensor&, Tensor*, const Tensor&) override {
    return tensorflow::errors::Unimplemented("Find");
  }
  tensorflow::Status Remove(OpKernelContext*, const Tensor&) override {
    return tensorflow::errors::Unimplemented("Remove");
  }
  tensorflow::Status ExportValues(OpKernelContext*) override {
    return tensorflow::errors::Unimplemented("ExportValues");
  }
  tensorflow::Status ImportValues(OpKernelContext*, const Tensor&, const Tensor&) override {
    return tensorflow::errors::Unimplemented("ImportValues");
  }
  size_t size() const override { return inserted_; }
  DataType key_dtype() const override { return tensorflow::DT_INT64; }
  DataType value_dtype() const override { return tensorflow::DT_FLOAT; }
  TensorShape key_shape() const override { return TensorShape(); }
  TensorShape value_shape() const override { return TensorShape({2}); }
  std::string DebugString() const override { return "OverlapTable"; }

 private:
  std::atomic<int> inserting_{0};
  std::atomic<int> most_{0};
  std::atomic<int> inserted_{0};
};

TEST(LookupTableTest, InsertsOneAtATime) {
  auto* const inner = new OverlapTable;
  const tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface> held(inner);
  inner->Ref();
  KeyInterner interner;
  Tensor initial(tensorflow::DT_FLOAT, TensorShape({2}));
  initial.flat<float>().setZero();
  std::unique_ptr<Table> table;
  ASSERT_TRUE(
      LookupTable::Create(tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface>(inner),
                          "rows", initial, &interner, &table)
          .ok());
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&table, t] {
      const float row[] = {1, 2};
      for (int64_t i = 0; i < 25; ++i) {
        const int64_t key = t * 25 + i;
        EXPECT_TRUE(table->Write(&key, 1, reinterpret_cast<const char*>(row)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(inner->most(), 1);
  EXPECT_EQ(inner->inserted(), 100);
}

}  // namespace
}  // namespace adaptcp
