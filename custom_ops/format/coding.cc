// SPDX-License-Identifier: Apache-2.0
// Bounds-checked reading of little-endian fields.

#include "custom_ops/format/coding.h"

namespace adaptcp {

void AppendString(std::string_view value, std::string* out) {
  AppendInt(static_cast<uint32_t>(value.size()), out);
  out->append(value);
}

Status Malformed(const Origin& origin, std::string_view what, std::string_view expected,
                 std::string_view found) {
  return DataLoss(origin.path, ": offset ", origin.offset, ": ", what, ": expected ", expected,
                  ", found ", found);
}

Status ByteReader::CheckRemaining(const char* what, uint64_t count, uint64_t bytes_each) const {
  const uint64_t remaining = bytes_.size() - position_;
  if (count <= remaining / bytes_each) return Status::OK();
  const std::string expected = bytes_each == 1 ? Concat(count) : Concat(count, " x ", bytes_each);
  return Malformed(here(), what, expected + " bytes",
                   Concat("only ", remaining, " bytes left in the record"));
}

Status ByteReader::ReadBytes(const char* what, uint64_t size, std::string_view* bytes) {
  ADAPTCP_RETURN_IF_ERROR(CheckRemaining(what, size, 1));
  *bytes = bytes_.substr(position_, size);
  position_ += size;
  return Status::OK();
}

Status ByteReader::ReadString(const char* what, std::string* value) {
  uint32_t size = 0;
  ADAPTCP_RETURN_IF_ERROR(ReadInt(what, &size));
  std::string_view bytes;
  ADAPTCP_RETURN_IF_ERROR(ReadBytes(what, size, &bytes));
  value->assign(bytes);
  return Status::OK();
}

Status ByteReader::ReadBool(const char* what, bool* value) {
  const Origin origin = here();
  uint8_t byte = 0;
  ADAPTCP_RETURN_IF_ERROR(ReadInt(what, &byte));
  if (byte > 1) return Malformed(origin, what, "0 or 1", Concat(int{byte}));
  *value = byte == 1;
  return Status::OK();
}

Status ByteReader::ReadMagic(const char* what, std::string_view magic) {
  const Origin origin = here();
  std::string_view bytes;
  ADAPTCP_RETURN_IF_ERROR(ReadBytes(what, magic.size(), &bytes));
  if (bytes != magic) return Malformed(origin, what, Quoted(magic), Quoted(bytes));
  return Status::OK();
}

Status ByteReader::ExpectEnd(const char* what) const {
  if (position_ == bytes_.size()) return Status::OK();
  return Malformed(here(), what, "the end of the record",
                   Concat(bytes_.size() - position_, " more bytes"));
}

std::string Quoted(std::string_view bytes) {
  constexpr size_t kShown = 64;
  constexpr char kHex[] = "0123456789abcdef";
  std::string text = "\"";
  for (const char c : bytes.substr(0, kShown)) {
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
      text += c;
    } else {
      const auto byte = static_cast<uint8_t>(c);
      text += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  text += bytes.size() > kShown ? "...\"" : "\"";
  return text;
}

}  // namespace adaptcp
