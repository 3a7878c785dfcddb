#include "experiments/program/cli/status_line.h"

#include <unistd.h>

#include <cstdio>

#include "experiments/program/cli/output.h"

namespace twofold {

bool HasStatusLine() { return isatty(STDERR_FILENO) != 0 && HowVerbose() != Verbosity::kQuiet; }

void ShowStatusLine(const std::string& text) {
  if (!HasStatusLine()) return;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

void ClearStatusLine() { ShowStatusLine(""); }

}  // namespace twofold
