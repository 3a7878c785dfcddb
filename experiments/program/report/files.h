// Reading and writing whole files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace twofold {

struct NamedText {
  std::string name;  // within the folder
  std::string text;
};

// Makes the folder (and those above it) and puts the files into it: all are written aside first and then
// renamed in the given order, so that a reader never sees half a file, and a failure to write leaves the old
// files as they were. Errors name the path and the reason.
absl::Status WriteFiles(const std::string& folder, const std::vector<NamedText>& files);

// Where there is one.
absl::Status RemoveFile(const std::string& path);

// Before a long job: refuse an output that could not be written after it, naming the flag ("--out") and the path.
// A file that is to be made or replaced. The folder above it must be there.
absl::Status CheckOutFile(std::string_view flag, const std::string& path);
// Likewise, that the file system has room for so many bytes beside what is there: they are written, and taken away again.
absl::Status CheckRoomFor(std::string_view flag, const std::string& path, int64_t bytes);
// A folder, which is made where it is missing, and those above it.
absl::Status MakeOutFolder(std::string_view flag, const std::string& path);

absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace twofold
