// SPDX-License-Identifier: Apache-2.0
// Scheduling of threads that work beside training.

#ifndef ADAPTCP_BASE_THREAD_PRIORITY_H_
#define ADAPTCP_BASE_THREAD_PRIORITY_H_

#include <sys/resource.h>

namespace adaptcp {

// Lets the calling thread run, for the rest of its life, where training leaves a processor idle, and
// else at about a tenth of the time. Best effort: where the system refuses, nothing changes.
inline void YieldToTraining() {
  constexpr int kNice = 10;
  // On Linux, 0 names the calling thread and not its process.
  (void)setpriority(PRIO_PROCESS, 0, kNice);
}

}  // namespace adaptcp

#endif  // ADAPTCP_BASE_THREAD_PRIORITY_H_
