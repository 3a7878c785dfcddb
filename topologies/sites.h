// Several copies of a cluster (sites), joined by a wide-area network.
//
//     [site 0]  [site 1]  [site 2]     each a copy of the same cluster
//         \        |        //          per site one link up and one link down, `bandwidth` each way
//           \      |      //            latency from site to site: `latency`
//          [wide-area network]         never a bottleneck
//
// A route between sites takes the sender's links up to the first network link (its NIC's cable), the two wide-area
// links, and the receiver's links from the last network link on. The switches between NICs and the wide-area link are
// not modelled: they are assumed to be wide enough. If sites have no network (one node each), a route between sites
// consists of the two wide-area links only.
//
// Switches between nodes do not reduce (SHARP): no switch sees the ranks of several sites. This also holds for groups
// within one site.
#pragma once

#include <memory>

#include "topologies/graph/topology.h"

namespace twofold {

struct SitesOptions {
  int count = 2;  // at least 2
  BytesPerSecond bandwidth{1.25e9};
  Seconds latency{0};
};

// Endpoint s * site->endpoints() + e is endpoint e of site s, and likewise for nodes and groups. vertices() holds the
// endpoints, then the other vertices of the sites (site by site), then each site's gateway, then the wide-area network.
// links() holds the links of the sites (site by site), then each site's links up and down. Names of a site's vertices
// and links begin with "s<site>."; its wide-area links are "s<site>.wan.up" and "s<site>.wan.down".
std::unique_ptr<Topology> JoinSites(std::shared_ptr<const Topology> site, const SitesOptions& options);

}  // namespace twofold
