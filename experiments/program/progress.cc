#include "experiments/program/progress.h"

#include <cmath>
#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/cli/output.h"
#include "experiments/program/cli/status_line.h"
#include "experiments/program/validation_text.h"
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

Progress::Progress() : terminal_(HasStatusLine()), last_(std::chrono::steady_clock::now()), first_(last_) {}

void Progress::operator()(const StepProgress& p) {
  const Time now = std::chrono::steady_clock::now();
  // the first step is shown at once: the job has started
  const bool first = p.step == p.first_step + 1, done = p.step == p.steps;
  if (p.validation != nullptr) return Validated(p);
  if (p.saved != nullptr) return Saved(p);
  if (first) first_ = now;
  const auto every = terminal_                             ? kBarEvery
                     : HowVerbose() == Verbosity::kVerbose ? std::chrono::milliseconds(0)
                                                           : std::chrono::milliseconds(kLineEvery);
  if (!first && now - last_ < every && !(done && terminal_)) return;
  last_ = now;
  std::string text = StrCat("step ", p.step, " of ", p.steps);
  if (p.seconds > 0) StrAppend(&text, ", ", SecondsText(p.seconds), " per step");
  if (p.loss_step > 0) StrAppend(&text, ", loss ", absl::StrFormat("%.4f", p.loss));
  if (p.loss_step > 0 && p.loss_step < p.step) StrAppend(&text, " after step ", p.loss_step);
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
  ShowStatusLine(StrCat("[", std::string(static_cast<size_t>(filled), '#'),
                        std::string(static_cast<size_t>(kBarWidth - filled), '.'), "] ", text));
  if (done) ClearStatusLine();
}

// Printed on a line of its own, which stays.
void Progress::Validated(const StepProgress& p) {
  report::Validation shown;
  shown.set_loss(p.validation->loss);
  p.validation->accuracy ? shown.set_accuracy(*p.validation->accuracy)
                         : shown.set_perplexity(std::exp(p.validation->loss));
  ClearStatusLine();
  std::fprintf(stderr, "after step %ld of %ld: validation %s\n", static_cast<long>(p.step), static_cast<long>(p.steps),
               ValidationText(shown).c_str());
}

void Progress::Saved(const StepProgress& p) {
  if (p.saved->path.empty()) return;  // a simulation wrote nothing
  ClearStatusLine();
  std::fprintf(stderr, "after step %ld of %ld: saved %s, %s in %s\n", static_cast<long>(p.saved->step),
               static_cast<long>(p.steps), p.saved->path.c_str(), BytesText(p.saved->bytes.value()).c_str(),
               SecondsText(p.saved->seconds.value()).c_str());
}

}  // namespace twofold
