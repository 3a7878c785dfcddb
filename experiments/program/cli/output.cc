#include "experiments/program/cli/output.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace twofold {
namespace {

Colour chosen_colour = Colour::kAuto;
Verbosity chosen_verbosity = Verbosity::kNormal;

std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool ColourOn(int file) {
  if (chosen_colour != Colour::kAuto) return chosen_colour == Colour::kAlways;
  return Variable("NO_COLOR").empty() && Variable("TERM") != "dumb" && isatty(file) != 0;
}

}  // namespace

void UseColour(Colour colour) { chosen_colour = colour; }
bool ColourOnStdout() { return ColourOn(STDOUT_FILENO); }
bool ColourOnStderr() { return ColourOn(STDERR_FILENO); }

void UseVerbosity(Verbosity verbosity) { chosen_verbosity = verbosity; }
Verbosity HowVerbose() { return chosen_verbosity; }

}  // namespace twofold
