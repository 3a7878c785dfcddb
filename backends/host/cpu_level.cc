#include "backends/host/cpu_level.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "kernels/cpu/levels.h"

namespace twofold::host {

absl::Status CheckCpuLevel() { return cpu::LevelInUse().status(); }

std::string DescribeCpuLevel() {
  const absl::StatusOr<std::string_view> level = cpu::LevelInUse();
  if (!level.ok()) return std::string(level.status().message());
  const std::vector<std::string> built = cpu::BuiltLevels();
  if (built.size() == 1) return std::string(*level);
  return StrCat("x86-64-", *level, " of ", absl::StrJoin(built, ", "));
}

}  // namespace twofold::host
