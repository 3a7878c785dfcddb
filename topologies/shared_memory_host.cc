#include "topologies/shared_memory_host.h"

#include <algorithm>

#include "core/base/strings.h"

namespace twofold {
namespace {

class SharedMemoryHost : public Topology {
 public:
  explicit SharedMemoryHost(const SharedMemoryHostOptions& options) : options_(options) {
    for (int r = 0; r < options.ranks; ++r) links_.push_back({StrCat("core", r), options.core_bandwidth});
    links_.push_back({"memory", options.total_bandwidth});
  }
  std::string_view kind() const override { return "shared_memory_host"; }
  int endpoints() const override { return options_.ranks; }
  const std::vector<Link>& links() const override { return links_; }
  // The receiver copies: its core and the memory system.
  void Route(int, int to, std::vector<int>& route) const override { route = {to, options_.ranks}; }
  Seconds Latency(int, int) const override { return options_.latency; }
  bool symmetric() const override { return true; }
  Seconds alpha() const override { return options_.latency; }
  BytesPerSecond bandwidth() const override {
    return std::min(options_.core_bandwidth, options_.total_bandwidth / static_cast<double>(options_.ranks));
  }

 private:
  SharedMemoryHostOptions options_;
  std::vector<Link> links_;
};

}  // namespace

std::unique_ptr<Topology> MakeSharedMemoryHost(const SharedMemoryHostOptions& options) {
  return std::make_unique<SharedMemoryHost>(options);
}

}  // namespace twofold
