#include <string>
#include <vector>

#include "core/base/strings.h"
#include "sim/collectives/ideal.h"
#include "sim/collectives/library.h"
#include "sim/collectives/open_mpi.h"

namespace twofold::sim {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Library> (*make)(const cluster::Library& library);
};
constexpr Row kRows[] = {
    {"ideal", MakeIdealLibrary},
    {"open_mpi", MakeOpenMpiLibrary},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Library>> MakeLibrary(const cluster::Library& library) {
  const std::string_view name = library.name().empty() ? "ideal" : std::string_view(library.name());
  std::string known;
  for (const Row& row : kRows) {
    if (row.name == name) return row.make(library);
    StrAppend(&known, known.empty() ? "" : ", ", row.name);
  }
  return absl::InvalidArgumentError(StrCat("library.name: \"", name, "\" is not a library; use one of ", known));
}

}  // namespace twofold::sim
