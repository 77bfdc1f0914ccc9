// SPDX-License-Identifier: Apache-2.0
// Starting threads, where a system that gives none is an error like any other.

#ifndef ADAPTCP_BASE_THREAD_H_
#define ADAPTCP_BASE_THREAD_H_

#include <functional>
#include <system_error>
#include <thread>
#include <utility>

#include "custom_ops/base/status.h"

namespace adaptcp {

// Runs `body` on a new thread, which whoever owns `thread` joins. ResourceExhausted when the system
// gives none, such as at a limit of processes: then nothing runs and `thread` is as before.
inline Status StartThread(std::function<void()> body, std::thread* thread) {
  try {
    *thread = std::thread(std::move(body));
    return Status::OK();
  } catch (const std::system_error& error) {
    return Status(StatusCode::kResourceExhausted,
                  Concat("no thread could be started: ", error.what(),
                         "; raise the limits of processes and memory, or use fewer threads"));
  }
}

}  // namespace adaptcp

#endif  // ADAPTCP_BASE_THREAD_H_
