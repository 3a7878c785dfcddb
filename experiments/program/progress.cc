#include "experiments/program/progress.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "core/base/strings.h"
#include "experiments/program/text.h"
#include "strategies/checkpoint/save.h"

namespace twofold {
namespace {

constexpr int kBarWidth = 30;
constexpr std::chrono::milliseconds kBarEvery(100);
constexpr std::chrono::seconds kLineEvery(5);

std::string TimeLeft(double seconds) {
  if (seconds < 60) return absl::StrFormat("%.0f s left", seconds);
  if (seconds < 3600) return absl::StrFormat("%.0f min left", seconds / 60);
  return absl::StrFormat("%.1f h left", seconds / 3600);
}

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0), last_(std::chrono::steady_clock::now()), first_(last_) {}

void Progress::operator()(const StepProgress& p) {
  const Time now = std::chrono::steady_clock::now();
  // the first step is shown at once: the job has started
  const bool first = p.step == p.first_step + 1, done = p.step == p.steps;
  if (p.validation != nullptr) return Validated(p);
  if (p.saved != nullptr) return Saved(p);
  if (first) first_ = now;
  if (!first && now - last_ < (terminal_ ? std::chrono::milliseconds(kBarEvery) : kLineEvery) && !(done && terminal_))
    return;
  last_ = now;
  std::string text = StrCat("step ", p.step, " of ", p.steps, ", ", SecondsText(p.seconds), " a step, loss ", absl::StrFormat("%.4f", p.loss));
  if (!first) {
    const double passed = std::chrono::duration<double>(now - first_).count();
    const double left = passed / static_cast<double>(p.step - p.first_step - 1) * static_cast<double>(p.steps - p.step);
    StrAppend(&text, ", ", TimeLeft(left));
  }
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  const int filled = static_cast<int>(kBarWidth * p.step / p.steps);
  std::fprintf(stderr, "\r\033[K[%s%s] %s", std::string(static_cast<size_t>(filled), '#').c_str(),
               std::string(static_cast<size_t>(kBarWidth - filled), '.').c_str(), text.c_str());
  if (done) ClearLine();
  std::fflush(stderr);
}

// Printed on a line of its own, which stays.
void Progress::Validated(const StepProgress& p) {
  if (terminal_) ClearLine();
  std::fprintf(stderr, "after step %ld of %ld: validation %s\n", static_cast<long>(p.step), static_cast<long>(p.steps),
               ValidationText(*p.validation).c_str());
}

void Progress::Saved(const StepProgress& p) {
  if (terminal_) ClearLine();
  std::fprintf(stderr, "after step %ld of %ld: saved %s, %s in %s\n", static_cast<long>(p.saved->step), static_cast<long>(p.steps),
               p.saved->path.c_str(), BytesText(p.saved->bytes.value()).c_str(), SecondsText(p.saved->seconds.value()).c_str());
}

void Progress::ClearLine() {
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
}

}  // namespace twofold
