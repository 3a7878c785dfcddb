#include "experiments/program/cli/status_line.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "experiments/program/cli/log.h"
#include "experiments/program/cli/output.h"

namespace twofold {

bool HasStatusLine() { return isatty(STDERR_FILENO) != 0 && HowVerbose() != Verbosity::kQuiet; }

void ShowStatusLine(const std::string& text) {
  if (!HasStatusLine()) return;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

void ClearStatusLine() { ShowStatusLine(""); }

void TellProgress(const std::string& text) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kBetween = std::chrono::seconds(10);
  if (HasStatusLine()) return ShowStatusLine(text);
  static Clock::time_point told = Clock::now();  // from the first call on
  const Clock::time_point now = Clock::now();
  if (now - told < kBetween) return;
  told = now;
  LogInfo(text);
}

}  // namespace twofold
