#include "experiments/program/report/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

absl::Status Failed(const std::string& path, std::string_view what, std::string_view why) {
  return Unavailable(path, ": cannot be ", what, ": ", why);
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
  if (error) return Failed(folder, "created", error.message());
  std::vector<std::string> paths;
  const absl::Cleanup remove_parts = [&paths] {  // files that were not renamed
    for (const std::string& path : paths) std::remove(Aside(path).c_str());
  };
  for (const NamedText& file : files) {
    paths.push_back(StrCat(folder, "/", file.name));
    if (absl::Status status = WriteOne(Aside(paths.back()), file.text); !status.ok()) return status;
  }
  for (const std::string& path : paths) {
    if (std::rename(Aside(path).c_str(), path.c_str()) != 0) return Failed(path, "written", std::strerror(errno));
  }
  return absl::OkStatus();
}

absl::Status RemoveFile(const std::string& path) {
  if (std::remove(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return Failed(path, "removed", std::strerror(errno));
}

absl::Status CheckOutFile(std::string_view flag, const std::string& path) {
  namespace fs = std::filesystem;
  const auto refuse = [&](std::string_view why) {
    return InvalidArgument(flag, "=", path, ": cannot be written: ", why,
                           "; use a file in a folder that this user may write to");
  };
  std::error_code none;
  const std::string above = fs::path(path).parent_path().string(), folder = above.empty() ? "." : above;
  if (path.ends_with('/') || fs::is_directory(path, none)) return refuse("it is a folder");
  if (!fs::is_directory(folder, none)) return refuse(StrCat(folder, " is not a folder"));
  if (fs::exists(path, none)) return access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : refuse(std::strerror(errno));
  // access rights alone do not tell: some file systems refuse to create files
  std::FILE* const probe = std::fopen(Aside(path).c_str(), "wbe");
  if (probe == nullptr) return refuse(std::strerror(errno));
  std::fclose(probe), std::remove(Aside(path).c_str());
  return absl::OkStatus();
}

absl::Status CheckRoomFor(std::string_view flag, const std::string& path, int64_t bytes) {
  const std::string aside = Aside(path);
  const absl::Cleanup remove = [&aside] { std::remove(aside.c_str()); };
  absl::Status written = WriteOne(aside, std::string(static_cast<size_t>(bytes), '\n'));
  // delayed writes fail only here
  if (const int file = open(aside.c_str(), O_RDONLY | O_CLOEXEC); written.ok() && file >= 0) {
    if (fsync(file) != 0) written = Failed(aside, "written", std::strerror(errno));
    close(file);
  }
  if (written.ok()) return written;
  return InvalidArgument(flag, "=", path, ": cannot be written: no room for ", bytes, " bytes (",
                         std::string(written.message()), "); make room there, or use a file elsewhere");
}

absl::Status MakeOutFolder(std::string_view flag, const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && access(path.c_str(), W_OK) == 0) return absl::OkStatus();
  return InvalidArgument(flag, ": ", path, error ? ": cannot be created: " : ": cannot be written to: ",
                         error ? error.message() : std::strerror(errno), "; give a folder that this user may write to");
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
