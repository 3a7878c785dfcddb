// The table of fabrics. A new backend is one folder and one row in registry.cc; --fabric, --help, `twofold list fabrics`
// and the conformance suite read this table.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

struct Backend {
  std::string_view name, summary;
  std::string (*why_not)();  // empty: available; else why this build or machine lacks it
  absl::StatusOr<std::unique_ptr<Fabric>> (*make)(const spec::Spec& spec);
  // The words that, put before a command line, start it as `ranks` processes, one a rank. Empty: ranks live within the
  // process that calls Run, or are its children.
  std::vector<std::string> (*launcher)(int ranks);
  // Reductions combine ranks in rank order and narrow types are rounded once, so that every such row gives the same bits.
  // False: any order, and bf16 and f16 may be rounded at every step.
  bool canonical_reductions = true;
};

std::span<const Backend> Backends();
const Backend* FindBackend(std::string_view name);  // null: no such row
// The backend that the spec names. Refuses one that is not available, with the reason and the names of those that are.
absl::StatusOr<std::unique_ptr<Fabric>> MakeFabric(const spec::Spec& spec);

}  // namespace twofold
