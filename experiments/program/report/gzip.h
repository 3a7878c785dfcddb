// Texts as gzip files (RFC 1952), by zlib.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace twofold {

// Equal bytes give equal files: without a name and a time.
std::string Gzip(std::string_view bytes);

bool IsGzip(std::string_view bytes);  // by its first two bytes
// All members of the file, one after another. InvalidArgument, without a file name, if the file is damaged or cut
// short, or if it holds more than `most` bytes.
absl::StatusOr<std::string> Gunzip(std::string_view bytes, int64_t most);

}  // namespace twofold
