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

// Sanitizers make tests about ten times as slow.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define ADAPTCP_SANITIZED
#endif
#endif
#ifdef ADAPTCP_SANITIZED
constexpr uint32_t kSlowness = 4;
#else
constexpr uint32_t kSlowness = 1;
#endif

// Number of seeds: ADAPTCP_ORACLE_SEEDS when the environment has it, otherwise `normal`, made fewer
// or more by ADAPTCP_TEST_LENGTH (short, normal or long) and fewer under sanitizers.
inline uint32_t SeedCount(uint32_t normal) {
  if (const char* seeds = std::getenv("ADAPTCP_ORACLE_SEEDS")) {
    return static_cast<uint32_t>(std::strtoul(seeds, nullptr, 10));
  }
  const char* value = std::getenv("ADAPTCP_TEST_LENGTH");
  const std::string length = value == nullptr ? "normal" : value;
  const uint32_t seeds = length == "short" ? normal / 5 : length == "long" ? 100 * normal : normal;
  return std::max(1u, seeds / kSlowness);
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
