#include "tests/conformance/launch.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

namespace twofold::conformance {

int RunToItsEnd(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));  // only read
  words.push_back(nullptr);
  pid_t child = 0;
  if (const int error = posix_spawnp(&child, words[0], nullptr, nullptr, words.data(), environ); error != 0) {
    std::cerr << "could not start " << command[0] << ": " << std::strerror(error) << std::endl;
    return 127;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace twofold::conformance
