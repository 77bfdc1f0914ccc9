// SPDX-License-Identifier: Apache-2.0
// Result of an operation: a code and a message. Converted to tensorflow::Status by the kernels, so
// that the engine and its tests need no TensorFlow binary.

#ifndef ADAPTCP_BASE_STATUS_H_
#define ADAPTCP_BASE_STATUS_H_

#include <sstream>
#include <string>
#include <utility>

namespace adaptcp {

// Values equal those of absl::StatusCode, which the kernels rely on when they convert.
enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kNotFound = 5,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
};

// Copyable; an OK status holds no message. Safe to read from several threads.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status OK() { return Status(); }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // Keeps the first failure of a sequence.
  void Update(const Status& next) {
    if (ok()) *this = next;
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <typename... Parts>
Status InvalidArgument(const Parts&... parts) {
  return Status(StatusCode::kInvalidArgument, Concat(parts...));
}
template <typename... Parts>
Status NotFound(const Parts&... parts) {
  return Status(StatusCode::kNotFound, Concat(parts...));
}
template <typename... Parts>
Status FailedPrecondition(const Parts&... parts) {
  return Status(StatusCode::kFailedPrecondition, Concat(parts...));
}
template <typename... Parts>
Status DataLoss(const Parts&... parts) {
  return Status(StatusCode::kDataLoss, Concat(parts...));
}
template <typename... Parts>
Status Internal(const Parts&... parts) {
  return Status(StatusCode::kInternal, Concat(parts...));
}

}  // namespace adaptcp

#define ADAPTCP_RETURN_IF_ERROR(expr)   \
  do {                                  \
    ::adaptcp::Status _status = (expr); \
    if (!_status.ok()) return _status;  \
  } while (false)

#endif  // ADAPTCP_BASE_STATUS_H_
