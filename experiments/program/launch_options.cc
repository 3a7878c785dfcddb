#include "experiments/program/launch_options.h"

#include <cstring>

#include "backends/registry.h"

namespace twofold {

bool ByVariables(const LaunchOptions& o) {
  if (o.fabric.empty()) return !o.program.empty();
  const Backend* const backend = FindBackend(o.fabric);
  return backend != nullptr && backend->by_variables;
}

std::string FabricOfCommand(const LaunchOptions& o) {
  for (size_t i = 0; i < o.command.size(); ++i) {
    if (o.command[i] == "--fabric" && i + 1 < o.command.size()) return o.command[i + 1];
    if (o.command[i].starts_with("--fabric=")) return o.command[i].substr(std::strlen("--fabric="));
  }
  return "";
}

}  // namespace twofold
