// SPDX-License-Identifier: Apache-2.0
// The keys of one update.

#ifndef ADAPTCP_ENGINE_KEY_BATCH_H_
#define ADAPTCP_ENGINE_KEY_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace adaptcp {

// `owner` keeps `keys` alive and unchanged as long as it is held.
struct KeyBatch {
  const int64_t* keys = nullptr;
  size_t size = 0;
  std::shared_ptr<const void> owner;

  bool SameKeys(const KeyBatch& other) const {
    return size == other.size &&
           (keys == other.keys || std::memcmp(keys, other.keys, size * sizeof(int64_t)) == 0);
  }
};

}  // namespace adaptcp

#endif  // ADAPTCP_ENGINE_KEY_BATCH_H_
