// SPDX-License-Identifier: Apache-2.0
// Little-endian integers, strings and arrays: appended to a string, read back with bounds checked.

#ifndef ADAPTCP_FORMAT_CODING_H_
#define ADAPTCP_FORMAT_CODING_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "custom_ops/base/status.h"

namespace adaptcp {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "segments are little endian and are read and written without swapping");

template <typename T>
void AppendInt(T value, std::string* out) {
  static_assert(std::is_integral_v<T>, "only integers have a defined encoding");
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
void AppendArray(const std::vector<T>& values, std::string* out) {
  static_assert(std::is_integral_v<T>, "only integers have a defined encoding");
  out->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// u32 length, then the bytes. `value` must be shorter than 4 GiB.
void AppendString(std::string_view value, std::string* out);

// Where some bytes lie in a file, so that an error about them can say so.
struct Origin {
  std::string path;
  uint64_t offset = 0;
};

// DataLoss naming the file, the offset, what was expected and what was found.
Status Malformed(const Origin& origin, std::string_view what, std::string_view expected,
                 std::string_view found);

// Consumes bytes from the front. Every method that fails returns DataLoss, leaves its result
// untouched and allocates nothing, whatever the bytes say. Does not own the bytes.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, const Origin& origin) : bytes_(bytes), origin_(origin) {}

  template <typename T>
  Status ReadInt(const char* what, T* value) {
    static_assert(std::is_integral_v<T>, "only integers have a defined encoding");
    std::string_view bytes;
    ADAPTCP_RETURN_IF_ERROR(ReadBytes(what, sizeof(T), &bytes));
    std::memcpy(value, bytes.data(), sizeof(T));
    return Status::OK();
  }

  template <typename T>
  Status ReadArray(const char* what, uint64_t count, std::vector<T>* values) {
    static_assert(std::is_integral_v<T>, "only integers have a defined encoding");
    ADAPTCP_RETURN_IF_ERROR(CheckRemaining(what, count, sizeof(T)));
    values->resize(count);
    if (count > 0) std::memcpy(values->data(), bytes_.data() + position_, count * sizeof(T));
    position_ += count * sizeof(T);
    return Status::OK();
  }

  // `bytes` points into the bytes being read.
  Status ReadBytes(const char* what, uint64_t size, std::string_view* bytes);
  Status ReadString(const char* what, std::string* value);
  // A byte that may only be 0 or 1.
  Status ReadBool(const char* what, bool* value);
  Status ReadMagic(const char* what, std::string_view magic);
  Status ExpectEnd(const char* what) const;

  // Where the next byte lies in the file.
  Origin here() const { return Origin{origin_.path, origin_.offset + position_}; }

 private:
  Status CheckRemaining(const char* what, uint64_t count, uint64_t bytes_each) const;

  const std::string_view bytes_;
  const Origin origin_;
  size_t position_ = 0;
};

// Printable form of bytes from an untrusted file, for messages.
std::string Quoted(std::string_view bytes);

}  // namespace adaptcp

#endif  // ADAPTCP_FORMAT_CODING_H_
