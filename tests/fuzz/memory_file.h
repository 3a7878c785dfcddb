// A file without a disk, for readers that take a path: a hundred thousand rewrites of one on disk take minutes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "core/base/check.h"

namespace twofold::test {

class MemoryFile {
 public:
  MemoryFile() : file_(memfd_create("twofold_test", MFD_CLOEXEC)) { TWOFOLD_CHECK_GE(file_, 0); }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void Write(std::string_view content) {  // the whole of it
    TWOFOLD_CHECK_EQ(ftruncate(file_, 0), 0);
    TWOFOLD_CHECK_EQ(pwrite(file_, content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

}  // namespace twofold::test
