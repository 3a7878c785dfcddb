#include "experiments/program/cli/status_line.h"

#include <unistd.h>

#include <cstdio>

namespace twofold {

bool HasStatusLine() { return isatty(STDERR_FILENO) != 0; }

void ShowStatusLine(const std::string& text) {
  if (!HasStatusLine()) return;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

void ClearStatusLine() { ShowStatusLine(""); }

}  // namespace twofold
