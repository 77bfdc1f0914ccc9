// SPDX-License-Identifier: Apache-2.0
// How long randomised tests run, and a guard against hanging.

#ifndef ADAPTCP_TESTS_CC_ENGINE_TEST_LENGTH_H_
#define ADAPTCP_TESTS_CC_ENGINE_TEST_LENGTH_H_

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace adaptcp {

// Number of seeds, `normal` unless the environment says otherwise: ADAPTCP_ORACLE_SEEDS gives the
// number itself, ADAPTCP_TEST_LENGTH is short, normal or long.
inline uint32_t SeedCount(uint32_t normal) {
  if (const char* seeds = std::getenv("ADAPTCP_ORACLE_SEEDS")) {
    return static_cast<uint32_t>(std::strtoul(seeds, nullptr, 10));
  }
  const char* value = std::getenv("ADAPTCP_TEST_LENGTH");
  const std::string length = value == nullptr ? "normal" : value;
  if (length == "short") return std::max(1u, normal / 10);
  if (length == "long") return normal * 100;
  return normal;
}

// Kills the process, so that the test fails, when it is not destroyed in time: a deadlock cannot be
// waited for.
class Watchdog {
 public:
  explicit Watchdog(unsigned timeout_secs = 120) { alarm(timeout_secs); }
  ~Watchdog() { alarm(0); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
};

}  // namespace adaptcp

#endif  // ADAPTCP_TESTS_CC_ENGINE_TEST_LENGTH_H_
