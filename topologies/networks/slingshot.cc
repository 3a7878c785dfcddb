#include "topologies/networks/slingshot.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/status.h"
#include "topologies/networks/dragonfly.h"

namespace twofold {
namespace {

constexpr int kRadix = 64;

int GlobalPorts(const SlingshotOptions& o) { return kRadix - o.ports_per_switch - (o.switches_per_group - 1); }

DragonflyOptions AsDragonfly(const SlingshotOptions& o) {
  return {.p = o.ports_per_switch,
          .a = o.switches_per_group,
          .h = std::max(0, GlobalPorts(o)),
          .groups = o.groups,
          .ports = o.ports,
          .cables_between_groups = o.links_between_groups,
          .global_cable = o.global_cable,
          .wiring = o.wiring};
}

}  // namespace

int64_t MostPorts(const SlingshotOptions& o) { return int64_t{o.groups} * o.switches_per_group * o.ports_per_switch; }

absl::Status Check(const SlingshotOptions& o) {
  if (absl::Status s = Check(o.wiring); !s.ok()) return s;
  if (absl::Status s = CheckAtLeast("groups", o.groups, 1); !s.ok()) return s;
  if (absl::Status s = CheckAtLeast("switches_per_group", o.switches_per_group, 1); !s.ok()) return s;
  if (absl::Status s = CheckAtLeast("ports_per_switch", o.ports_per_switch, 1); !s.ok()) return s;
  if (absl::Status s = CheckAtLeast("links_between_groups", o.links_between_groups, 0); !s.ok()) return s;
  if (absl::Status s = CheckAtLeast("ports", o.ports, 0); !s.ok()) return s;
  if (o.ports_per_switch >= kRadix || o.switches_per_group > kRadix || GlobalPorts(o) < (o.groups > 1 ? 1 : 0)) {
    return InvalidArgument("switches_per_group = ", o.switches_per_group,
                           ": with ports_per_switch = ", o.ports_per_switch, " a switch of ", kRadix,
                           " ports has none left for other groups");
  }
  const int64_t has = int64_t{o.switches_per_group} * GlobalPorts(o), others = o.groups - 1;
  const int64_t links = std::max(1, o.links_between_groups);
  if (links * others > has) {
    return InvalidArgument(o.links_between_groups > 0 ? "links_between_groups" : "groups", " = ",
                           o.links_between_groups > 0 ? o.links_between_groups : o.groups, ": a group would need ",
                           links * others, " optical cables, but its ", o.switches_per_group, " switches have ",
                           GlobalPorts(o), " ports each left for them, ", has, " in total");
  }
  return Check(AsDragonfly(o));
}

std::unique_ptr<Topology> MakeSlingshot(const SlingshotOptions& options) {
  const absl::Status status = Check(options);
  TWOFOLD_CHECK(status.ok(), std::string(status.message()));
  return MakeDragonfly(AsDragonfly(options), "slingshot");
}

}  // namespace twofold
