#include "topologies/networks/shared_memory_host.h"

#include <algorithm>

#include "core/base/strings.h"

namespace twofold {
namespace {

class SharedMemoryHost : public Topology {
 public:
  explicit SharedMemoryHost(const SharedMemoryHostOptions& options) : options_(options) {
    for (int r = 0; r < options.ranks; ++r) {
      vertices_.push_back({Vertex::kDevice, StrCat("core", r), 0});
      links_.push_back({StrCat("core", r), options.core_bandwidth, Seconds(0), options.ranks, r, Medium::kMemory});
    }
    vertices_.push_back({Vertex::kHost, "memory", 0});
    links_.push_back(
        {"memory", options.total_bandwidth, options.latency, options.ranks, options.ranks, Medium::kMemory});
  }
  std::string_view kind() const override { return "shared_memory_host"; }
  int endpoints() const override { return options_.ranks; }
  const std::vector<Vertex>& vertices() const override { return vertices_; }
  const std::vector<Link>& links() const override { return links_; }
  // The receiver copies, so the route is its core and the memory system.
  void Route(Pair pair, int64_t, std::vector<int>& route) const override { route = {pair.to, options_.ranks}; }
  Seconds Latency(Pair) const override { return options_.latency; }
  int nodes() const override { return 1; }
  int NodeOf(int) const override { return 0; }
  bool symmetric() const override { return true; }
  Seconds alpha() const override { return options_.latency; }
  BytesPerSecond bandwidth() const override {
    return std::min(options_.core_bandwidth, options_.total_bandwidth / static_cast<double>(options_.ranks));
  }

 private:
  SharedMemoryHostOptions options_;
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
};

}  // namespace

std::unique_ptr<Topology> MakeSharedMemoryHost(const SharedMemoryHostOptions& options) {
  return std::make_unique<SharedMemoryHost>(options);
}

}  // namespace twofold
