// Folders for the files of tests: in memory if the system allows it, so that no test waits for a disk.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "core/base/strings.h"

namespace twofold::test {

// A path that belongs to this process alone. Anything already there is removed, and its content is removed when the
// process exits. `name` may be a parametrised test's.
inline std::string ScratchFolder(std::string name) {
  struct Paths {
    ~Paths() {
      std::error_code none;
      for (const std::string& path : all)
        if (getpid() == owner) std::filesystem::remove_all(path, none);
    }
    const pid_t owner = getpid();  // a forked child that exits removes nothing
    std::set<std::string> all;
  };
  static Paths paths;
  std::replace(name.begin(), name.end(), '/', '_');  // otherwise the folder above it would remain
  const std::string shared = "/dev/shm/", place = access(shared.c_str(), W_OK) == 0 ? shared : ::testing::TempDir();
  const std::string path = StrCat(place, "twofold_test_", getpid(), "_", name);
  std::filesystem::remove_all(path);
  paths.all.insert(path);
  return path;
}

}  // namespace twofold::test
