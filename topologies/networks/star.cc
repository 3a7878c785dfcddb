#include "topologies/networks/star.h"

#include "core/base/strings.h"

namespace twofold {
namespace {

class Star : public Topology {
 public:
  explicit Star(const StarOptions& options) : options_(options) {
    for (int h = 0; h < options.hosts; ++h) vertices_.push_back({Vertex::kDevice, StrCat("h", h), h});
    vertices_.push_back({Vertex::kSwitch, "switch"});
    for (int h = 0; h < options.hosts; ++h) {
      const Seconds half = options.latency / 2;
      links_.push_back({StrCat("h", h, ".up"), options.bandwidth, half, h, options.hosts});
      links_.push_back({StrCat("h", h, ".down"), options.bandwidth, half, options.hosts, h});
    }
  }
  std::string_view kind() const override { return "star"; }
  int endpoints() const override { return options_.hosts; }
  const std::vector<Vertex>& vertices() const override { return vertices_; }
  const std::vector<Link>& links() const override { return links_; }
  void Route(Pair pair, int64_t, std::vector<int>& route) const override { route = {2 * pair.from, 2 * pair.to + 1}; }
  Seconds Latency(Pair) const override { return options_.latency; }
  bool symmetric() const override { return true; }
  Seconds alpha() const override { return options_.latency; }
  BytesPerSecond bandwidth() const override { return options_.bandwidth; }

 private:
  StarOptions options_;
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
};

}  // namespace

std::unique_ptr<Topology> MakeStar(const StarOptions& options) { return std::make_unique<Star>(options); }

}  // namespace twofold
