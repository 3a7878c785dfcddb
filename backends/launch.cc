#include "backends/launch.h"

#include <cstdlib>

#include "absl/strings/numbers.h"

namespace twofold {
namespace {

struct Names {
  const char *rank, *size;
};
// A batch script's own environment has Slurm's variables, too, but no PMI ones: only a step's tasks do.
constexpr Names kLaunchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
                                {"PMI_RANK", "PMI_SIZE"}};

bool ReadNumber(const char* name, int& value) {
  const char* const text = std::getenv(name);
  return text != nullptr && absl::SimpleAtoi(text, &value);
}

}  // namespace

Launch LaunchedAs() {
  for (const Names& names : kLaunchers) {
    Launch launch{.launched = true};
    if (ReadNumber(names.rank, launch.rank) && ReadNumber(names.size, launch.size)) return launch;
  }
  return {};
}

}  // namespace twofold
