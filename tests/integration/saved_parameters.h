// The parameters that a run saves: whole tensors by name.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/safetensors.h"

namespace twofold::test {

using Parameters = std::map<std::string, std::vector<double>>;

// A field of `train`: save a full checkpoint once, when training ends.
inline std::string SaveAtTheEnd(const std::string& folder) {
  return StrCat("checkpoint { path: \"", folder, "\" kind: FULL } ");
}

// The parameters, F32 or F64, of the latest full checkpoint in a folder; the test fails if there is none.
inline Parameters SavedParameters(const std::string& folder) {
  Parameters parameters;
  const std::vector<checkpoint::Found> found = checkpoint::List(folder);
  EXPECT_FALSE(found.empty()) << folder;
  if (found.empty()) return parameters;
  const std::string path = found[0].path + "/model.safetensors";
  const auto head = checkpoint::ReadSafetensorsHead(path);
  EXPECT_TRUE(head.ok()) << head.status().message();
  if (!head.ok()) return parameters;
  std::ifstream file(path, std::ios::binary);
  for (const auto& [name, tensor] : head->tensors) {
    file.seekg(tensor.begin);
    const auto read = [&]<class T>(std::vector<T> values) {
      values.resize(static_cast<size_t>(tensor.shape.numel()));
      file.read(reinterpret_cast<char*>(values.data()), tensor.bytes());
      parameters[name] = {values.begin(), values.end()};
    };
    if (tensor.dtype == DType::kF64) {
      read(std::vector<double>());
    } else {
      EXPECT_EQ(tensor.dtype, DType::kF32) << name;
      read(std::vector<float>());
    }
  }
  EXPECT_TRUE(file.good()) << path;
  return parameters;
}

// Checks that every tensor's largest difference is within `tolerance` times the largest expected element.
inline void ExpectNear(const Parameters& actual, const Parameters& expected, double tolerance,
                       const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (const auto& [name, wanted] : expected) {
    const auto it = actual.find(name);
    ASSERT_NE(it, actual.end()) << what << ": " << name;
    ASSERT_EQ(it->second.size(), wanted.size()) << what << ": " << name;
    double largest = 0, off = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      largest = std::max(largest, std::abs(wanted[i]));
      off = std::max(off, std::abs(wanted[i] - it->second[i]));
    }
    EXPECT_LE(off, tolerance * largest) << what << ": " << name << ", whose largest element is " << largest;
  }
}

}  // namespace twofold::test
