// SPDX-License-Identifier: Apache-2.0
// Which prefetched batches are still to be saved for a cut, and in which order.

#include "custom_ops/engine/prefetch_window.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace adaptcp {
namespace {

class PrefetchWindowTest : public testing::Test {
 protected:
  void Add(size_t size, size_t window) {
    window_.Add(
        [size] {
          KeyBatch batch;
          batch.size = size;
          return batch;
        },
        window);
  }
  // Sizes of the batches, which here tell them apart.
  std::vector<size_t> TakeAll(uint32_t tag) {
    std::vector<size_t> sizes;
    LazyKeyBatch batch;
    while (window_.Take(tag, &batch)) sizes.push_back(batch().size);
    return sizes;
  }

  PrefetchWindow window_;
};

TEST_F(PrefetchWindowTest, EmptyWindowHasNothingToTake) {
  EXPECT_EQ(TakeAll(1), std::vector<size_t>());
}

TEST_F(PrefetchWindowTest, OldestIsTakenFirst) {
  for (size_t size : {3, 1, 2}) Add(size, 3);
  EXPECT_EQ(TakeAll(1), (std::vector<size_t>{3, 1, 2}));
}

TEST_F(PrefetchWindowTest, OldestIsForgottenWhenTheWindowIsFull) {
  for (size_t size : {1, 2, 3, 4}) Add(size, 2);
  EXPECT_EQ(TakeAll(1), (std::vector<size_t>{3, 4}));
}

TEST_F(PrefetchWindowTest, BatchIsTakenOnceForACut) {
  Add(1, 3);
  EXPECT_EQ(TakeAll(1), std::vector<size_t>{1});
  Add(2, 3);
  EXPECT_EQ(TakeAll(1), std::vector<size_t>{2});
}

TEST_F(PrefetchWindowTest, NextCutTakesTheSameBatchesAgain) {
  Add(1, 3);
  Add(2, 3);
  EXPECT_EQ(TakeAll(1), (std::vector<size_t>{1, 2}));
  EXPECT_EQ(TakeAll(2), (std::vector<size_t>{1, 2}));
}

}  // namespace
}  // namespace adaptcp
