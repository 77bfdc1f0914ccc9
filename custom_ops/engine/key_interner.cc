// SPDX-License-Identifier: Apache-2.0
// Numbering of string keys.

#include "custom_ops/engine/key_interner.h"

namespace adaptcp {

bool KeyInterner::Find(std::string_view key, int64_t* id) {
  SharedLock lock(&mu_);
  const auto it = ids_.find(key);
  if (it == ids_.end()) return false;
  *id = it->second;
  return true;
}

int64_t KeyInterner::Intern(std::string_view key) {
  int64_t known;
  if (Find(key, &known)) return known;
  ExclusiveLock lock(&mu_);
  const auto it = ids_.find(key);
  if (it != ids_.end()) return it->second;
  const int64_t id = static_cast<int64_t>(keys_.size());
  keys_.emplace_back(key);
  ids_.emplace(keys_.back(), id);
  return id;
}

const std::string& KeyInterner::KeyOf(int64_t id) {
  SharedLock lock(&mu_);
  return keys_[static_cast<size_t>(id)];
}

}  // namespace adaptcp
