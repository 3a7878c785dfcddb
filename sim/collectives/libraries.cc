#include <algorithm>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "sim/collectives/ideal.h"
#include "sim/collectives/library.h"
#include "sim/collectives/nccl.h"
#include "sim/collectives/open_mpi.h"

namespace twofold::sim {
namespace {

struct Row {
  std::string_view name;
  absl::StatusOr<std::unique_ptr<Library>> (*make)(const cluster::Library& library);
};
constexpr Row kRows[] = {
    {"ideal",
     [](const cluster::Library& l) -> absl::StatusOr<std::unique_ptr<Library>> { return MakeIdealLibrary(l); }},
    {"nccl", MakeNcclLibrary},
    {"rccl", MakeRcclLibrary},
    {"open_mpi", MakeOpenMpiLibrary},
};

// The `names` of all libraries, each once, in the order of the rows.
std::vector<std::string> OfAll(std::vector<std::string_view> (Library::*names)() const) {
  std::vector<std::string> all;
  for (const Row& row : kRows) {
    const absl::StatusOr<std::unique_ptr<Library>> library = row.make(cluster::Library());
    TWOFOLD_CHECK(library.ok(), "a library has defaults");
    for (std::string_view name : (library->get()->*names)()) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.emplace_back(name);
    }
  }
  return all;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Library>> MakeLibrary(const cluster::Library& library) {
  const std::string_view name = library.name().empty() ? "ideal" : std::string_view(library.name());
  std::string known;
  for (const Row& row : kRows) {
    if (row.name == name) return row.make(library);
    StrAppend(&known, known.empty() ? "" : ", ", row.name);
  }
  return InvalidArgument("library.name: \"", name, "\" is not a library; use one of ", known);
}

std::vector<std::string> AllAlgorithms() { return OfAll(&Library::algorithms); }
std::vector<std::string> AllProtocols() { return OfAll(&Library::protocols); }

}  // namespace twofold::sim
