#include "topologies/networks/full_mesh_network.h"

#include <algorithm>
#include <string>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr int kMost = 4096;

class FullMeshNetwork : public PortNetwork {
 public:
  explicit FullMeshNetwork(const FullMeshNetworkOptions& o) : PortNetwork(o.ports, o.wiring) {
    Reserve(ports_, int64_t{ports_} * (ports_ - 1) / 2);
    for (int p = 0; p < ports_; ++p) AddPort(p, 0);
    const Seconds latency = wiring_.nic + wiring_.cable + wiring_.nic;
    for (int a = 0; a < ports_; ++a) {
      for (int b = a + 1; b < ports_; ++b) {
        links_.push_back({StrCat("p", a, "-p", b), wiring_.bandwidth, latency, a, b});
        links_.push_back({StrCat("p", b, "-p", a), wiring_.bandwidth, latency, b, a});
      }
    }
  }

  std::string_view kind() const override { return "full_mesh"; }
  bool endpoints_forward() const override { return true; }
  bool symmetric() const override { return true; }
  int64_t Detours(Pair) const override { return ports_ - 2; }

  void Route(Pair pair, int64_t number, std::vector<int>& route) const override {
    route.clear();
    int at = pair.from;
    if (number > 0) {
      int by = static_cast<int>(number) - 1;
      if (by >= std::min(pair.from, pair.to)) ++by;
      if (by >= std::max(pair.from, pair.to)) ++by;
      route.push_back(LinkOf(at, by));
      at = by;
    }
    route.push_back(LinkOf(at, pair.to));
  }

 private:
  int LinkOf(int from, int to) const {
    const int low = std::min(from, to), high = std::max(from, to);
    return 2 * (low * (2 * ports_ - low - 1) / 2 + high - low - 1) + (from < to ? 0 : 1);
  }
};

}  // namespace

absl::Status Check(const FullMeshNetworkOptions& o) {
  if (absl::Status s = Check(o.wiring); !s.ok()) return s;
  if (absl::Status s = CheckAtLeast("ports", o.ports, 1); !s.ok()) return s;
  if (o.ports <= kMost) return absl::OkStatus();
  return InvalidArgument("ports = ", o.ports, ": a full mesh has at most ", kMost);
}

std::unique_ptr<Topology> MakeFullMeshNetwork(const FullMeshNetworkOptions& options) {
  const absl::Status status = Check(options);
  TWOFOLD_CHECK(status.ok(), std::string(status.message()));
  return std::make_unique<FullMeshNetwork>(options);
}

}  // namespace twofold
