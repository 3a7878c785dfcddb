// Reading and writing whole files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace twofold {

struct NamedText {
  std::string name;  // within the folder
  std::string text;
};

// Makes the folder (and its parents) and writes the files into it. All are written under temporary names first and then
// renamed in the given order. So a reader never sees half a file, and a failure to write leaves the old files as they
// were. Errors name the path and the reason.
absl::Status WriteFiles(const std::string& folder, const std::vector<NamedText>& files);

// Does nothing if there is no such file.
absl::Status RemoveFile(const std::string& path);

// These are called before a long job. They refuse an output that could not be written after it; errors name the flag
// ("--out") and the path.
// For a file to create or replace. The folder above it must exist.
absl::Status CheckOutFile(std::string_view flag, const std::string& path);
// Likewise, checks that the file system has room for so many more bytes: writes them, and removes them again.
absl::Status CheckRoomFor(std::string_view flag, const std::string& path, int64_t bytes);
// For a folder; creates it and its parents if missing.
absl::Status MakeOutFolder(std::string_view flag, const std::string& path);

absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace twofold
