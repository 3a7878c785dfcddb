#include "tests/conformance/fabrics.h"

#include "backends/in_memory/fabric.h"
#include "backends/registry.h"

namespace twofold::conformance {
namespace {

constexpr char kPointToPoint[] = "in_memory_point_to_point";

std::vector<TestedFabric> MakeList() {
  std::vector<TestedFabric> list;
  for (const Backend& b : Backends()) list.push_back({std::string(b.name), b.why_not(), b.make});
  list.push_back({kPointToPoint, "", [](const spec::Spec& spec) -> absl::StatusOr<std::unique_ptr<Fabric>> {
                    return MakeInMemoryFabric(spec, in_memory::GroupOptions{.point_to_point_only = true});
                  }});
  return list;
}

}  // namespace

const std::vector<TestedFabric>& TestedFabrics() {
  static const std::vector<TestedFabric> list = MakeList();
  return list;
}

spec::Spec SpecFor(const std::string& fabric) {
  spec::Spec spec;
  spec::Fabric* f = spec.mutable_fabric();
  const auto* field = f->GetDescriptor()->FindFieldByName(fabric == kPointToPoint ? "in_memory" : fabric);
  f->GetReflection()->MutableMessage(f, field);
  if (f->has_simulated()) f->mutable_simulated()->set_data(spec::Simulated::REAL);
  spec.mutable_model()->mutable_mlp()->set_inputs(4);  // required, and of no interest here
  spec.mutable_model()->mutable_mlp()->set_classes(2);
  return spec;
}

std::vector<Parameter> Parameters(std::vector<int> sizes) {
  std::vector<Parameter> parameters;
  for (const TestedFabric& fabric : TestedFabrics()) {
    for (int n : sizes) parameters.push_back({fabric, n});
  }
  return parameters;
}

std::string ParameterName(const testing::TestParamInfo<Parameter>& info) {
  return StrCat(info.param.fabric.name, "_", info.param.ranks, "_ranks");
}

}  // namespace twofold::conformance
