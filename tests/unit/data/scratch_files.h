// Files for a test, in a folder of this process's own that is emptied first.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "core/data/dataset.h"

namespace twofold {

class ScratchFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("twofold_" + std::to_string(getpid()) + "_" + info->test_suite_name() + "_" + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return Path(name);
  }
  std::filesystem::path folder_;
};

// One sample's input and target as elements of T.
template <class T>
struct Sample {
  std::vector<T> input, target;
};
template <class T>
Sample<T> ReadSample(const Dataset& dataset, int64_t index) {
  Sample<T> s{std::vector<T>(dataset.input().shape.numel()), std::vector<T>(dataset.target().shape.numel())};
  dataset.Read(index, std::as_writable_bytes(std::span(s.input)), std::as_writable_bytes(std::span(s.target)));
  return s;
}

}  // namespace twofold
