#include "topologies/networks/torus.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr int kMostDims = 6;

// Permutes `dims` (the first `count`) in place to order `number` of count!; number 0 leaves them unchanged.
void Permute(std::array<int, kMostDims>& dims, int count, int64_t number) {
  for (int i = 0; i < count; ++i) {
    int64_t rest = 1;
    for (int k = 2; k < count - i; ++k) rest *= k;
    const auto at = dims.begin() + i;
    std::rotate(at, at + number / rest, at + number / rest + 1);
    number %= rest;
  }
}

int64_t Factorial(int n) { return n < 2 ? 1 : n * Factorial(n - 1); }

class Torus : public PortNetwork {
 public:
  explicit Torus(const TorusOptions& o) : PortNetwork(static_cast<int>(MostPorts(o)), o.wiring) {
    int stride = 1, first = 0;
    for (int size : o.dims) {
      Dimension d{size, stride, o.wrap && size > 2, 0, first};
      d.cables = d.ring ? size : size - 1;
      first += ports_ / size * d.cables;
      stride *= size;
      dims_.push_back(d);
    }
    Reserve(ports_, first);
    for (int v = 0; v < ports_; ++v) AddPort(v, 0);
    for (const Dimension& d : dims_) AddCables(d);
  }

  std::string_view kind() const override { return "torus"; }
  std::vector<int> grid() const override {
    std::vector<int> sizes;
    for (const Dimension& d : dims_) {
      if (!d.ring && d.size > 2) return {};
      sizes.push_back(d.size);
    }
    return sizes;
  }
  bool endpoints_forward() const override { return true; }

  int64_t MinimalRoutes(Pair pair) const override {
    const Way way = WayOf(pair);
    return Factorial(way.count) << way.ties;
  }
  int64_t Detours(Pair pair) const override {
    const Way way = WayOf(pair);
    return Factorial(way.count) * way.rings;
  }
  // The first order of dimensions. In the low `ties` bits, bit i says that the i-th tie goes down.
  int64_t DefaultRoute(Pair pair) const override {
    int64_t number = 0;
    int bit = 0;
    for (const Dimension& d : dims_) {
      if (!IsTie(d, Offset(d, pair))) continue;
      number |= int64_t{Coordinate(d, pair.from) % 2} << bit++;
    }
    return number;
  }

  void Route(Pair pair, int64_t number, std::vector<int>& route) const override {
    const Way way = WayOf(pair);
    const int64_t orders = Factorial(way.count), minimal = orders << way.ties;
    std::array<int, kMostDims> order = way.differ;
    std::array<int, kMostDims> steps{};
    int tie = 0, ring = 0;
    const int long_ring = number < minimal ? -1 : static_cast<int>((number - minimal) / orders);
    for (int i = 0; i < way.count; ++i) {
      const Dimension& d = dims_[static_cast<size_t>(order[static_cast<size_t>(i)])];
      int offset = way.offsets[static_cast<size_t>(order[static_cast<size_t>(i)])];  // in a ring: (-size/2, size/2]
      if (IsTie(d, offset)) {
        if (long_ring < 0 && ((number >> tie++) & 1) != 0) offset -= d.size;
      } else if (d.ring && ring++ == long_ring) {
        offset += offset > 0 ? -d.size : d.size;
      }
      steps[static_cast<size_t>(order[static_cast<size_t>(i)])] = offset;
    }
    Permute(order, way.count, long_ring < 0 ? number >> way.ties : (number - minimal) % orders);
    route.clear();
    int at = pair.from;
    for (int i = 0; i < way.count; ++i) {
      const size_t d = static_cast<size_t>(order[static_cast<size_t>(i)]);
      at = Walk(dims_[d], at, steps[d], route);
    }
  }

 private:
  struct Dimension {
    int size, stride;
    bool ring;
    int cables;       // per line
    int first_cable;  // of this dimension
  };
  // The number of dimensions in which two ports differ, how many of them are rings with a shorter direction, and how
  // many are ties.
  struct Way {
    std::array<int, kMostDims> differ{}, offsets{};  // offsets: by dimension
    int count = 0, rings = 0, ties = 0;
  };

  static int Coordinate(const Dimension& d, int port) { return port / d.stride % d.size; }
  // Steps up (negative: down) in the shorter direction; ties go up.
  static int Offset(const Dimension& d, Pair pair) {
    int offset = Coordinate(d, pair.to) - Coordinate(d, pair.from);
    if (!d.ring) return offset;
    if (2 * offset > d.size) offset -= d.size;
    if (2 * offset <= -d.size) offset += d.size;
    return offset;
  }
  static bool IsTie(const Dimension& d, int offset) { return d.ring && 2 * offset == d.size; }

  Way WayOf(Pair pair) const {
    Way way;
    for (size_t i = 0; i < dims_.size(); ++i) {
      const int offset = way.offsets[i] = Offset(dims_[i], pair);
      if (offset == 0) continue;
      way.differ[static_cast<size_t>(way.count++)] = static_cast<int>(i);
      if (!dims_[i].ring) continue;
      ++(IsTie(dims_[i], offset) ? way.ties : way.rings);
    }
    return way;
  }

  // The upward link out of a port; the downward link of the same cable, into the port, has the next number.
  static int LinkUp(const Dimension& d, int port) {
    const int line = port / (d.stride * d.size) * d.stride + port % d.stride;
    return 2 * (d.first_cable + line * d.cables + Coordinate(d, port));
  }
  static int Neighbour(const Dimension& d, int port, int step) {
    const int x = Coordinate(d, port);
    return port + ((x + step + d.size) % d.size - x) * d.stride;
  }

  // Appends `steps` links (of either sign) along a dimension; returns the port at the end.
  static int Walk(const Dimension& d, int at, int steps, std::vector<int>& route) {
    int x = Coordinate(d, at);
    const int first_port = at - x * d.stride, first_link = LinkUp(d, at) - 2 * x;  // of the line
    for (; steps > 0; --steps) {
      route.push_back(first_link + 2 * x);
      x = x + 1 == d.size ? 0 : x + 1;
    }
    for (; steps < 0; ++steps) {
      x = x == 0 ? d.size - 1 : x - 1;
      route.push_back(first_link + 2 * x + 1);
    }
    return first_port + x * d.stride;
  }

  void AddCables(const Dimension& d) {
    links_.resize(links_.size() + 2 * static_cast<size_t>(ports_ / d.size * d.cables));
    const Seconds hop = wiring_.cable + wiring_.switching;
    for (int v = 0; v < ports_; ++v) {
      if (!d.ring && Coordinate(d, v) == d.size - 1) continue;
      const int w = Neighbour(d, v, 1);
      const size_t up = static_cast<size_t>(LinkUp(d, v));
      links_[up] = {StrCat("p", v, "-p", w), wiring_.bandwidth, hop, v, w};
      links_[up + 1] = {StrCat("p", w, "-p", v), wiring_.bandwidth, hop, w, v};
    }
  }

  std::vector<Dimension> dims_;
};

}  // namespace

int64_t MostPorts(const TorusOptions& o) {
  int64_t ports = 1;
  for (int size : o.dims) ports *= size;
  return ports;
}

absl::Status Check(const TorusOptions& o) {
  if (absl::Status s = Check(o.wiring); !s.ok()) return s;
  if (absl::Status s = CheckNoNic(o.wiring); !s.ok()) return s;
  const std::string text = absl::StrJoin(o.dims, ", ");
  if (o.dims.empty() || o.dims.size() > kMostDims) {
    return InvalidArgument("dims = [", text, "]: must be 1 to ", kMostDims, " sizes");
  }
  int64_t ports = 1;
  for (int size : o.dims) {
    if (size < 1) return InvalidArgument("dims = [", text, "]: ", size, ": must be at least 1");
    ports *= size;
    if (ports > kMostPorts) {
      return InvalidArgument("dims = [", text, "]: the product of the sizes must be at most ", kMostPorts);
    }
  }
  return absl::OkStatus();
}

std::unique_ptr<Topology> MakeTorus(const TorusOptions& options) {
  const absl::Status status = Check(options);
  TWOFOLD_CHECK(status.ok(), std::string(status.message()));
  return std::make_unique<Torus>(options);
}

}  // namespace twofold
