// Features that a spec can name but this version does not have. When you build one, delete its row.
#include "core/base/strings.h"
#include "experiments/program/spec/validate.h"

namespace twofold {
namespace {

using spec::Spec;

struct Row {
  std::string_view path;
  std::string (*value)(const Spec&);  // as the user wrote it; "" if the spec does not use it
  std::string_view available;
};

constexpr Row kRows[] = {
    {"fabric.gloo", [](const Spec& s) { return std::string(s.fabric().has_gloo() ? "gloo" : ""); },
     "use in_memory, mpi, nccl or simulated"},
};

}  // namespace

void CheckNotInThisVersion(const Spec& spec, Problems& problems) {
  for (const Row& row : kRows) {
    const std::string value = row.value(spec);
    if (!value.empty()) problems.Add(row.path, value, " is not in this version; ", row.available);
  }
}

}  // namespace twofold
