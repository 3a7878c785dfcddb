#include "experiments/report/files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

absl::Status Failed(const std::string& path, std::string_view what, std::string_view why) {
  return absl::UnavailableError(StrCat(path, ": cannot be ", what, ": ", why));
}

absl::Status WriteOne(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return Failed(path, "written", std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int write_error = errno;
  const bool closed = std::fclose(file) == 0;  // a full disk may show only here
  if (!written) return Failed(path, "written", std::strerror(write_error));
  return closed ? absl::OkStatus() : Failed(path, "written", std::strerror(errno));
}

std::string Aside(const std::string& path) { return StrCat(path, ".part"); }

}  // namespace

absl::Status WriteFiles(const std::string& folder, const std::vector<NamedText>& files) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Failed(folder, "made", error.message());
  std::vector<std::string> paths;
  const absl::Cleanup remove_parts = [&paths] {  // whatever was not renamed
    for (const std::string& path : paths) std::remove(Aside(path).c_str());
  };
  for (const NamedText& file : files) {
    paths.push_back(StrCat(folder, "/", file.name));
    if (absl::Status status = WriteOne(Aside(paths.back()), file.text); !status.ok()) return status;
  }
  for (const std::string& path : paths) {
    if (std::rename(Aside(path).c_str(), path.c_str()) != 0)
      return Failed(path, "written", std::strerror(errno));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return Failed(path, "read", std::strerror(errno));
  std::string text;
  char part[1 << 16];
  size_t n = 0;
  while ((n = std::fread(part, 1, sizeof(part), file)) > 0) text.append(part, n);
  const bool failed = std::ferror(file) != 0;
  const int read_error = errno;
  std::fclose(file);
  if (failed) return Failed(path, "read", std::strerror(read_error));
  return text;
}

}  // namespace twofold
