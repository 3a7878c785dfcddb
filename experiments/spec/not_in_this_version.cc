// What a spec can name and this version cannot do. Who builds one of these deletes its row.
#include "core/base/strings.h"
#include "experiments/spec/problems.h"

namespace twofold {
namespace {

using spec::Spec;

struct Row {
  std::string_view path;
  std::string (*value)(const Spec&);  // as the user wrote it; "" when the spec does not ask for it
  std::string_view available;
};

constexpr Row kRows[] = {
    {"fabric.gloo", [](const Spec& s) { return std::string(s.fabric().has_gloo() ? "gloo" : ""); },
     "use in_memory, mpi or simulated"},
    {"fabric.nccl", [](const Spec& s) { return std::string(s.fabric().has_nccl() ? "nccl" : ""); },
     "use in_memory, mpi or simulated"},
    {"device",
     [](const Spec& s) { return std::string(s.device() == spec::CUDA && s.fabric().has_mpi() ? "CUDA on fabric.mpi, whose buffers would be a GPU's," : ""); },
     "use in_memory, whose ranks are threads and share GPUs, or predict with simulated"},
};

}  // namespace

void CheckNotInThisVersion(const Spec& spec, Problems& problems) {
  for (const Row& row : kRows) {
    const std::string value = row.value(spec);
    if (!value.empty()) problems.Add(row.path, StrCat(value, " is not in this build; ", row.available));
  }
}

}  // namespace twofold
