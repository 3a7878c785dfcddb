// The processes of a run that a test has started through a launcher.
#pragma once

#include <signal.h>

#include <filesystem>
#include <string>

#include "tests/deadline.h"
#include "tests/integration/program.h"

namespace twofold {

// Whether one of the texts in `all`, each of which ends in a zero, is `one`.
inline bool HasText(const std::string& all, const std::string& one) {
  return (std::string(1, '\0') + all).find(std::string(1, '\0') + one + std::string(1, '\0')) != std::string::npos;
}

// A process for which this is true; -1: there is none.
template <class F>
pid_t FindProcess(F is_it) {
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos && is_it(it->path())) return std::stoi(name);
  }
  return -1;
}

// The process whose command line has `word` (an argument that no other run has) and which a launcher made rank `rank`.
inline pid_t ProcessOfRank(int rank, const std::string& word) {
  return FindProcess([&](const fs::path& process) {
    if (!HasText(ReadAll(process / "cmdline"), word)) return false;
    const std::string variables = ReadAll(process / "environ");
    return HasText(variables, StrCat("RANK=", rank)) || HasText(variables, StrCat("OMPI_COMM_WORLD_RANK=", rank));
  });
}

// The process whose command line has `word` and which runs in `folder`.
inline pid_t ProcessWith(const std::string& word, const fs::path& folder) {
  return FindProcess([&](const fs::path& process) {
    std::error_code error;
    return fs::read_symlink(process / "cwd", error) == folder && HasText(ReadAll(process / "cmdline"), word);
  });
}

inline void SignalRank(int rank, const std::string& word, int signal) {
  pid_t process = -1;
  AwaitThat([&] { return (process = ProcessOfRank(rank, word)) > 0; }, StrCat("the process of rank ", rank));
  kill(process, signal);
}

}  // namespace twofold
