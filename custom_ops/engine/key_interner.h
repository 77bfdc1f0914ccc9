// SPDX-License-Identifier: Apache-2.0
// Gives each string key a number, so that the tracker and the tables' adapters handle int64 only.

#ifndef ADAPTCP_ENGINE_KEY_INTERNER_H_
#define ADAPTCP_ENGINE_KEY_INTERNER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "custom_ops/base/mutex.h"

namespace adaptcp {

// Numbers count up from 0 and are never reused. Thread-safe.
class KeyInterner {
 public:
  // The number of `key`, a new one when it was not seen before.
  int64_t Intern(std::string_view key) TF_LOCKS_EXCLUDED(mu_);

  // The number of `key`; false when Intern never saw it.
  bool Find(std::string_view key, int64_t* id) TF_LOCKS_EXCLUDED(mu_);

  // The key that Intern numbered `id`; the reference stays valid.
  const std::string& KeyOf(int64_t id) TF_LOCKS_EXCLUDED(mu_);

 private:
  SharedMutex mu_;
  // A deque never moves its elements, so the map's views and KeyOf's references stay valid.
  std::deque<std::string> keys_ TF_GUARDED_BY(mu_);
  std::unordered_map<std::string_view, int64_t> ids_ TF_GUARDED_BY(mu_);
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_KEY_INTERNER_H_
