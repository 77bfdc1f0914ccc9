// SPDX-License-Identifier: Apache-2.0
// A system that gives no threads.

#ifndef ADAPTCP_TESTS_CC_ENGINE_NO_THREADS_H_
#define ADAPTCP_TESTS_CC_ENGINE_NO_THREADS_H_

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace adaptcp {

// While it lives no thread can be started: its stack would not fit into the address space.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t greedy;
    EXPECT_EQ(pthread_getattr_default_np(&greedy), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&greedy, size_t{1} << 60), 0);
    EXPECT_EQ(pthread_setattr_default_np(&greedy), 0);
    pthread_attr_destroy(&greedy);
  }
  ~NoThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace adaptcp

#endif  // ADAPTCP_TESTS_CC_ENGINE_NO_THREADS_H_
