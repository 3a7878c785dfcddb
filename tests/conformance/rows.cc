#include "tests/conformance/rows.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backends/host/cuda.h"
#include "backends/in_memory/fabric.h"
#include "core/base/check.h"
#include "core/base/strings.h"
#include "tests/conformance/mpi_rows.h"

namespace twofold::conformance {
spec::Spec SpecFor(std::string_view fabric) {
  spec::Spec spec;
  spec::Fabric* f = spec.mutable_fabric();
  const auto* field = f->GetDescriptor()->FindFieldByName(std::string(fabric));
  TWOFOLD_CHECK(field != nullptr, StrCat("spec.proto has no fabric ", fabric));
  f->GetReflection()->MutableMessage(f, field);
  if (f->has_simulated()) f->mutable_simulated()->set_data(spec::Simulated::REAL);
  spec.mutable_model()->mutable_mlp()->set_inputs(4);  // required, and of no interest here
  spec.mutable_model()->mutable_mlp()->set_classes(2);
  return spec;
}

namespace {

// On a GPU, where there is one.
void OnGpu(Row& row) {
  row.spec.set_device(spec::CUDA);
  row.label = "gpu";
  if (const std::string why = host::WhyNoCuda(); !why.empty()) row.why_not = StrCat("skipped without a GPU: ", why);
}

// A GPU each, or several on one where the user says that NCCL may.
int RanksOnGpus() {
  constexpr int kOnOne = 4;
  const char* const several = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (several != nullptr && std::strcmp(several, "1") == 0) return kOnOne;
  return std::clamp(host::GpusHere(), 1, kMostRanks);
}

std::vector<Row> MakeRows() {
  std::vector<Row> rows;
  for (const Backend& b : Backends()) {
    rows.push_back({std::string(b.name), b.why_not(), b.make, SpecFor(b.name), {}, b.canonical_reductions});
    if (b.launcher != nullptr) rows.back().launcher = b.launcher(kMostRanks);
    if (b.gpu_memory_only) {
      OnGpu(rows.back());
      rows.back().most_ranks = RanksOnGpus();
    }
    if (!b.by_variables) continue;
    const Backend& mpi = *FindBackend("mpi");
    if (mpi.why_not().empty())
      rows.back().launcher = mpi.launcher(rows.back().most_ranks);
    else
      rows.back().most_ranks = 1;
  }
  rows.push_back({.name = "in_memory_point_to_point",
                  .make = [](const spec::Spec& spec) -> absl::StatusOr<std::unique_ptr<Fabric>> {
                    return MakeInMemoryFabric(spec, in_memory::GroupOptions{.point_to_point_only = true});
                  },
                  .spec = SpecFor("in_memory")});
  rows.push_back(
      {.name = "in_memory_slow_links", .make = FindBackend("in_memory")->make, .spec = SpecFor("in_memory")});
  rows.back().spec.mutable_fabric()->mutable_in_memory()->set_link_gbps(400);
  rows.back().spec.mutable_fabric()->mutable_in_memory()->set_latency_us(2);
  rows.push_back({.name = "in_memory_cuda", .make = FindBackend("in_memory")->make, .spec = SpecFor("in_memory")});
  OnGpu(rows.back());
  for (Row& row : MpiRowsOnGpus()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = MakeRows();
  return rows;
}

Outcome RunCase(Fabric& fabric, const Case& c, int ranks, bool exact_reductions, const WorldWrapper& wrap) {
  RunResult result = fabric.Run(ranks, [&](RankContext& context) {
    const std::unique_ptr<ProcessGroup> wrapped = wrap ? wrap(context) : nullptr;
    Rig rig(context, wrapped == nullptr ? context.world() : *wrapped, exact_reductions);
    c.body(rig);
    return rig.wrong().empty() ? std::string(kFine) : rig.wrong();
  });
  return {std::move(result.status), fabric.speaks(), result.results.Copies()};
}

}  // namespace twofold::conformance
