#include "kernels/cuda/emulated/launch_record.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <tuple>

#include "core/base/check.h"

namespace twofold::emulated {
namespace {

class LaunchRecord {
 public:
  explicit LaunchRecord(const char* path) : file_(std::fopen(path, "a")) {
    if (file_ != nullptr) return;
    std::fprintf(stderr, "TWOFOLD_EMULATED_LAUNCHES: %s cannot be written\n", path);
    std::exit(2);
  }
  void Add(const void* kernel, uint64_t threads, size_t shared) {
    const std::scoped_lock lock(mutex_);
    if (!seen_.emplace(kernel, threads, shared).second) return;
    Dl_info program;
    TWOFOLD_CHECK(dladdr(kernel, &program) != 0, "a kernel belongs to a program or a library");
    const size_t offset = reinterpret_cast<uintptr_t>(kernel) - reinterpret_cast<uintptr_t>(program.dli_fbase);
    std::fprintf(file_, "%s %zx %zu %zu\n", program.dli_fname, offset, static_cast<size_t>(threads), shared);
    std::fflush(file_);
  }

 private:
  std::FILE* const file_;
  std::mutex mutex_;
  std::set<std::tuple<const void*, uint64_t, size_t>> seen_;
};

LaunchRecord* TheRecord() {
  static LaunchRecord* const record = []() -> LaunchRecord* {
    const char* path = std::getenv("TWOFOLD_EMULATED_LAUNCHES");
    return path == nullptr || *path == '\0' ? nullptr : new LaunchRecord(path);
  }();
  return record;
}

}  // namespace

void RecordLaunch(const void* kernel, uint64_t threads, size_t shared) {
  if (LaunchRecord* record = TheRecord()) record->Add(kernel, threads, shared);
}

}  // namespace twofold::emulated
