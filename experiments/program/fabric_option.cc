#include "experiments/program/fabric_option.h"

#include <vector>

#include "backends/registry.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"

namespace twofold {

absl::Status CheckFabricOption(const std::string& name) {
  if (name.empty() || FindBackend(name) != nullptr) return absl::OkStatus();
  std::vector<std::string> available;
  for (const Backend& backend : Backends())
    if (backend.why_not().empty()) available.emplace_back(backend.name);
  return InvalidArgument("--fabric=", Printable(name), ": unknown fabric", Suggestion(name, available));
}

}  // namespace twofold
