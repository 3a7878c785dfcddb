#include "core/base/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "core/base/status.h"

namespace twofold {
namespace {

// Some hard limits are 1000 times higher, and some libraries loop over all numbers below the soft limit
constexpr rlim_t kEnough = 1 << 20;

int64_t OpenNow() {
  std::error_code error;
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd", error),
                       std::filesystem::directory_iterator());
}

}  // namespace

absl::Status AllowOpenFiles(int64_t more, std::string_view who, std::string_view what) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  const auto needed = static_cast<rlim_t>(OpenNow() + more);
  const rlim_t wanted = std::min(limit.rlim_max, std::max(needed, kEnough));
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur >= needed) return absl::OkStatus();
  return FailedPrecondition(who, " may have only ", limit.rlim_cur, " files open, but ", what, " needs ", needed,
                            "; raise the hard limit (ulimit -Hn) on its host");
}

}  // namespace twofold
