#include "topologies/routing.h"

#include "core/base/strings.h"

namespace twofold {

Router::Router(const Topology& topology, const RoutingOptions& options)
    : topology_(topology), options_(options), load_(topology.links().size()) {}

void Router::Choose(Pair pair, uint64_t, double, std::vector<Path>& paths) {
  paths.resize(1);
  paths[0].share = 1;
  topology_.Route(pair, topology_.DefaultRoute(pair), paths[0].links);
}

void Router::Finished(const std::vector<Path>&, double) {}

}  // namespace twofold
