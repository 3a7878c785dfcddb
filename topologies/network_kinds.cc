#include "topologies/network_kinds.h"

#include "core/base/strings.h"
#include "google/protobuf/message.h"
#include "topologies/check_fields.h"
#include "topologies/networks/dragonfly.h"
#include "topologies/networks/fat_tree.h"
#include "topologies/networks/full_mesh_network.h"
#include "topologies/networks/hamming_mesh.h"
#include "topologies/networks/network.h"
#include "topologies/networks/slingshot.h"
#include "topologies/networks/star.h"
#include "topologies/networks/torus.h"

namespace twofold {
namespace {

Wiring WiringOf(const cluster::Network& n) {
  return {.bandwidth = GigabytesPerSecond(n.link_gbytes_per_second()),
          .cable = Microseconds(n.cable_us()),
          .switching = Microseconds(n.switch_us()),
          .nic = Microseconds(n.nic_us())};
}

// Checks the numbers of a kind's message: counts fit an int, and so their products an int64_t. Builders check
// everything else.
absl::Status CheckNumbers(const google::protobuf::Message& kind) {
  using google::protobuf::FieldDescriptor;
  Checks checks;
  const google::protobuf::Reflection& values = *kind.GetReflection();
  for (int f = 0; f < kind.GetDescriptor()->field_count(); ++f) {
    const FieldDescriptor* field = kind.GetDescriptor()->field(f);
    if (field->is_repeated()) {
      for (int i = 0; i < values.FieldSize(kind, field); ++i)
        checks << CheckRange(StrCat(field->name(), "[", i, "]"), values.GetRepeatedInt64(kind, field, i), 0, 1 << 20);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      checks << CheckRange(field->name(), values.GetInt64(kind, field), 0, 1 << 20);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      checks << CheckNotNegative(field->name(), values.GetDouble(kind, field));
    }
  }
  return checks;
}

absl::Status Check(const StarOptions&) { return absl::OkStatus(); }

absl::Status CheckOptions(const auto& options, int) { return Check(options); }

// For networks whose shape fixes the number of ports.
absl::Status CheckFull(const auto& options, int ports) {
  if (absl::Status s = Check(options); !s.ok() || ports == MostPorts(options)) return s;
  return Refuse("ports", ports, StrCat("its shape has ", MostPorts(options), " ports; both numbers must be equal"));
}
absl::Status CheckOptions(const TorusOptions& options, int ports) { return CheckFull(options, ports); }
absl::Status CheckOptions(const HammingMeshOptions& options, int ports) { return CheckFull(options, ports); }

const google::protobuf::FieldDescriptor* FieldOf(cluster::Network::KindCase kind) {
  return cluster::Network::descriptor()->FindFieldByNumber(kind);
}

// A row whose network is described by an options struct: kOptions makes it, kMake the network.
template <auto kOptions, auto kMake>
NetworkKind Row(cluster::Network::KindCase kind, bool grows) {
  return {.kind = kind,
          .name = FieldOf(kind)->name(),
          .grows = grows,
          .check =
              [](const cluster::Network& n, int ports, int rails) {
                const absl::Status numbers = CheckNumbers(n.GetReflection()->GetMessage(n, FieldOf(n.kind_case())));
                return numbers.ok() ? CheckOptions(kOptions(n, ports, rails), ports) : numbers;
              },
          .make = [](const cluster::Network& n, int ports, int rails) { return kMake(kOptions(n, ports, rails)); }};
}

StarOptions StarOf(const cluster::Network& n, int ports, int) {
  const Wiring w = WiringOf(n);
  return {.hosts = ports, .bandwidth = w.bandwidth, .latency = 2 * w.cable + w.switching + 2 * w.nic};
}

FatTreeOptions FatTreeOf(const cluster::Network& n, int ports, int rails) {
  const cluster::FatTree& tree = n.fat_tree();
  return {.ports = ports,
          .levels = static_cast<int>(tree.levels()),
          .radix = static_cast<int>(tree.radix()),
          .oversubscription = tree.oversubscription(),
          .top_oversubscription = tree.top_oversubscription(),
          .rails = tree.rail_optimised() ? rails : 1,
          .wiring = WiringOf(n)};
}
DragonflyOptions DragonflyOf(const cluster::Network& n, int ports, int) {
  const cluster::Dragonfly& fly = n.dragonfly();
  return {.p = static_cast<int>(fly.p()),
          .a = static_cast<int>(fly.a()),
          .h = static_cast<int>(fly.h()),
          .groups = static_cast<int>(fly.groups()),
          .ports = ports,
          .local_bandwidth = GigabytesPerSecond(fly.local_gbytes_per_second()),
          .global_bandwidth = GigabytesPerSecond(fly.global_gbytes_per_second()),
          .wiring = WiringOf(n)};
}
std::unique_ptr<Topology> MakeFly(const DragonflyOptions& options) { return MakeDragonfly(options); }

SlingshotOptions SlingshotOf(const cluster::Network& n, int ports, int) {
  const cluster::Slingshot& s = n.slingshot();
  return {.groups = static_cast<int>(s.groups()),
          .switches_per_group = static_cast<int>(s.switches_per_group()),
          .ports_per_switch = static_cast<int>(s.ports_per_switch()),
          .links_between_groups = static_cast<int>(s.links_between_groups()),
          .ports = ports,
          .global_cable = s.has_global_us() ? Microseconds(s.global_us()) : Seconds(-1),
          .wiring = WiringOf(n)};
}
TorusOptions TorusOf(const cluster::Network& n, int, int) {
  return {.dims = {n.torus().dims().begin(), n.torus().dims().end()}, .wrap = n.torus().wrap(), .wiring = WiringOf(n)};
}
HammingMeshOptions HammingMeshOf(const cluster::Network& n, int, int) {
  const cluster::HammingMesh& mesh = n.hamming_mesh();
  return {.a = static_cast<int>(mesh.a()),
          .b = static_cast<int>(mesh.b()),
          .x = static_cast<int>(mesh.x()),
          .y = static_cast<int>(mesh.y()),
          .radix = static_cast<int>(mesh.radix()),
          .wiring = WiringOf(n)};
}
FullMeshNetworkOptions FullMeshOf(const cluster::Network& n, int ports, int) { return {ports, WiringOf(n)}; }

}  // namespace

const std::vector<NetworkKind>& NetworkKinds() {
  static const std::vector<NetworkKind> kinds = {
      Row<StarOf, MakeStar>(cluster::Network::kStar, true),
      Row<FatTreeOf, MakeFatTree>(cluster::Network::kFatTree, false),
      Row<DragonflyOf, MakeFly>(cluster::Network::kDragonfly, false),
      Row<SlingshotOf, MakeSlingshot>(cluster::Network::kSlingshot, false),
      Row<TorusOf, MakeTorus>(cluster::Network::kTorus, false),
      Row<HammingMeshOf, MakeHammingMesh>(cluster::Network::kHammingMesh, false),
      Row<FullMeshOf, MakeFullMeshNetwork>(cluster::Network::kFullMesh, true),
  };
  return kinds;
}

const NetworkKind* FindNetworkKind(cluster::Network::KindCase kind) {
  for (const NetworkKind& row : NetworkKinds()) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

}  // namespace twofold
