// Bucket algorithm over a torus (Barnett et al. 1995, "Global combine algorithms for 2-D meshes"; all links at once as
// in Jain and Sabharwal 2010, "Optimal bucket algorithms for large MPI collectives on torus interconnects"): the tensor
// is cut into 2 D parts, one for each dimension and direction. A part goes around its own dimension first, then around
// the next, ..., each time with the rest of it, so that in every stage each link carries one part.
//
// On a torus of D equal dimensions of k > 2, with N = k^D and b of one link:
//   reduce_scatter, all_gather   D (k-1) a + (N-1)/N n b / (2 D)
//   all_reduce                   both, one after the other
// With unequal dimensions, a stage ends with its longest: the bytes of dimension k are (k-1)/k of the rest of a part.
#include "sim/collectives/builder.h"

namespace twofold::sim {
namespace {

class Grid {
 public:
  Grid(const Places& places, double bytes) : at_(places.at) {
    int stride = 1;
    for (int size : places.grid) {
      if (size > 1) dims_.push_back({size, stride});
      stride *= size;
    }
    part_ = bytes / static_cast<double>(2 * dims_.size());
  }

  // In stage t of a reduce-scatter, part (d, direction) is in dimension d + t.
  Phase Stage(size_t t) const {
    Phase phase{.rounds = 0, .flows = {}};
    for (size_t d = 0; d < dims_.size(); ++d) {
      double left = part_;
      for (size_t before = 0; before < t; ++before) left /= dims_[(d + before) % dims_.size()].size;
      const Dim& dim = dims_[(d + t) % dims_.size()];
      phase.rounds = std::max(phase.rounds, dim.size - 1);
      Around(dim, left * (dim.size - 1) / dim.size, phase);
    }
    return phase;
  }
  size_t dims() const { return dims_.size(); }

 private:
  struct Dim {
    int size, stride;
  };

  // One flow in each direction from every rank; if both directions lead to the same neighbour, one flow with both
  // parts.
  void Around(const Dim& dim, double bytes, Phase& phase) const {
    for (int k = 0; k < static_cast<int>(at_.size()); ++k) {
      const int x = k / dim.stride % dim.size, line = k - x * dim.stride;
      auto neighbour = [&](int step) { return Rank(line + (x + step + dim.size) % dim.size * dim.stride); };
      if (dim.size == 2) {
        phase.flows.push_back({Rank(k), neighbour(1), 2 * bytes});
        continue;
      }
      for (int step : {1, -1}) phase.flows.push_back({Rank(k), neighbour(step), bytes});
    }
  }
  int Rank(int position) const { return at_[static_cast<size_t>(position)]; }

  const std::vector<int>& at_;
  std::vector<Dim> dims_;
  double part_;
};

}  // namespace

absl::StatusOr<Schedule> BucketSchedule(const CollectiveShape& shape, const Places& places) {
  if (places.grid.empty()) return NoForm("bucket", shape, "the ranks do not fill a torus or a HammingMesh");
  const bool reduce = shape.kind == Communication::kAllReduce || shape.kind == Communication::kReduceScatter;
  const bool gather = shape.kind == Communication::kAllReduce || shape.kind == Communication::kAllGather;
  if (!reduce && !gather) return NoForm("bucket", shape);
  const Grid grid(places, shape.bytes);
  std::vector<Phase> phases;
  for (size_t t = 0; reduce && t < grid.dims(); ++t) phases.push_back(grid.Stage(t));
  for (size_t t = grid.dims(); gather && t-- > 0;) phases.push_back(grid.Stage(t));
  return Finished(std::move(phases), shape.ranks);
}

}  // namespace twofold::sim
