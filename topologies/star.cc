#include "topologies/star.h"

#include "core/base/strings.h"

namespace twofold {
namespace {

class Star : public Topology {
 public:
  explicit Star(const StarOptions& options) : options_(options) {
    for (int h = 0; h < options.hosts; ++h) {
      links_.push_back({StrCat("h", h, ".up"), options.bandwidth});
      links_.push_back({StrCat("h", h, ".down"), options.bandwidth});
    }
  }
  std::string_view kind() const override { return "star"; }
  int endpoints() const override { return options_.hosts; }
  const std::vector<Link>& links() const override { return links_; }
  void Route(int from, int to, std::vector<int>& route) const override { route = {2 * from, 2 * to + 1}; }
  Seconds Latency(int, int) const override { return options_.latency; }
  bool symmetric() const override { return true; }
  Seconds alpha() const override { return options_.latency; }
  BytesPerSecond bandwidth() const override { return options_.bandwidth; }

 private:
  StarOptions options_;
  std::vector<Link> links_;
};

}  // namespace

std::unique_ptr<Topology> MakeStar(const StarOptions& options) { return std::make_unique<Star>(options); }

}  // namespace twofold
