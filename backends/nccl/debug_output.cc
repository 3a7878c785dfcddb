#include "backends/nccl/debug_output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "absl/strings/str_replace.h"
#include "core/base/strings.h"

namespace twofold::nccl {

std::string DebugFileOf(int descriptor) {
  const std::string link = StrCat("/proc/self/fd/", descriptor);
  struct stat open_file;
  if (fstat(descriptor, &open_file) != 0 || S_ISSOCK(open_file.st_mode)) return "";  // sockets have no name to open
  if (!S_ISREG(open_file.st_mode)) return descriptor == STDERR_FILENO ? "/dev/stderr" : link;
  char path[PATH_MAX];
  const ssize_t length = readlink(link.c_str(), path, sizeof path);
  if (length <= 0 || length == sizeof path) return "";
  const std::string name(path, static_cast<size_t>(length));
  struct stat named;
  const bool is_there =
      stat(name.c_str(), &named) == 0 && named.st_dev == open_file.st_dev && named.st_ino == open_file.st_ino;
  return is_there ? StrCat(absl::StrReplaceAll(name, {{"%", "%%"}}), ".nccl.%h.%p") : "";  // NCCL replaces %h and %p
}

void SendDebugOutputToStandardError() {
  if (std::getenv("NCCL_DEBUG") == nullptr || std::getenv("NCCL_DEBUG_FILE") != nullptr) return;
  const std::string file = DebugFileOf(STDERR_FILENO);
  if (!file.empty()) setenv("NCCL_DEBUG_FILE", file.c_str(), 0);
}

}  // namespace twofold::nccl
