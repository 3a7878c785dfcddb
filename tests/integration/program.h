// Runs the built program as a user would, in a temporary folder.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "core/base/strings.h"
#include "tests/deadline.h"

namespace twofold {

namespace fs = std::filesystem;

inline constexpr char kSmall[] =
    "model { mlp { inputs: 8 hidden: [16] classes: 4 } }\n"
    "train { steps: 4 micro_batch: 2 }\n"
    "parallel { dp: 2 }\n"
    "fabric { simulated { profile: \"tests/integration/tiny.profile.textproto\" } }\n";

inline std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class Program : public ::testing::Test {
 protected:
  Program() {
    std::string name = (fs::temp_directory_path() / "twofold-program-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Program() override {  // a process may still be exiting there
    std::error_code none;
    fs::remove_all(folder_, none);
  }

  std::string At(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(At(name)) << text;
    return At(name);
  }

  // Runs `twofold <arguments>`; returns its exit status and keeps what it printed.
  int Run(const std::string& arguments) {
    const std::string command = StrCat(TWOFOLD_PROGRAM, " ", arguments, " >", At("stdout"), " 2>", At("stderr"));
    const int status = RunShell(command);
    out_ = ReadAll(At("stdout"));
    err_ = ReadAll(At("stderr"));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  nlohmann::json Report(const std::string& folder) const {
    return nlohmann::json::parse(ReadAll(folder + "/report.json"));
  }

  fs::path folder_;
  std::string out_, err_;
};

}  // namespace twofold
