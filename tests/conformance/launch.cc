#include "tests/conformance/launch.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <thread>

namespace twofold::conformance {

constexpr double kDeadline = 600;  // seconds, of a whole suite

int RunToItsEnd(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));  // only read
  words.push_back(nullptr);
  pid_t child = 0;
  if (const int error = posix_spawnp(&child, words[0], nullptr, nullptr, words.data(), environ); error != 0) {
    std::cerr << "could not start " << command[0] << ": " << std::strerror(error) << std::endl;
    return 127;
  }
  const auto start = std::chrono::steady_clock::now();
  int status = 0;
  for (int asked = 0; waitpid(child, &status, WNOHANG) != child;) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (seconds > kDeadline + 10 * asked) {
      std::cerr << command[0] << " did not end within " << seconds << " s; it is now "
                << (asked == 0 ? "asked to end" : "killed") << std::endl;
      kill(child, asked++ == 0 ? SIGTERM : SIGKILL);  // a launcher that is asked ends its processes first
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace twofold::conformance
