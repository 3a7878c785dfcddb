// Where tests put what they write: in memory where the system has such a place, so that no test waits for a disk.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "core/base/strings.h"

namespace twofold::test {

// A path that is this process's alone; what stood there is gone, and what is put there goes with the process. `name`: a
// parametrised test's will do.
inline std::string ScratchFolder(std::string name) {
  struct Paths {
    ~Paths() {
      std::error_code none;
      for (const std::string& path : all) if (getpid() == owner) std::filesystem::remove_all(path, none);
    }
    const pid_t owner = getpid();  // a forked child that exits takes nothing away
    std::set<std::string> all;
  };
  static Paths paths;
  std::replace(name.begin(), name.end(), '/', '_');  // else the folder above it would be left
  const std::string shared = "/dev/shm/", place = access(shared.c_str(), W_OK) == 0 ? shared : ::testing::TempDir();
  const std::string path = StrCat(place, "twofold_test_", getpid(), "_", name);
  std::filesystem::remove_all(path);
  paths.all.insert(path);
  return path;
}

}  // namespace twofold::test
