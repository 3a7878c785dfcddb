// A memory-mapped file of samples, and the errors that refuse one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/status.h"

namespace twofold {

// Unmapped on destruction. The file must not shrink while it lives.
class MappedFile {
 public:
  // Maps a whole regular file of at least `least` bytes. For errors, `what` says what those bytes hold ("the header")
  // and `remedy` what file would be right. Errors name the file, the offset, the value found and what would be right.
  static absl::StatusOr<MappedFile> Open(const std::string& path, int64_t least, std::string_view what,
                                         std::string_view remedy);
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  ~MappedFile();
  const std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  MappedFile(const std::byte* data, int64_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  int64_t size_;
};

// "PATH: at byte OFFSET: WHAT"
absl::Status RefuseFile(const std::string& path, int64_t offset, const auto&... what) {
  return InvalidArgument(path, ": at byte ", offset, ": ", what...);
}

}  // namespace twofold
