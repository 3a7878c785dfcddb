// Platforms of SimGrid (version 4 and 4.1 of its XML), both ways.
//
//     <platform version="4.1">
//       <zone id="world" routing="Full">                        or Floyd, Dijkstra, DijkstraCache; <cluster/> in its place
//         <host id="a" speed="1Gf"/> <router id="r"/>
//         <link id="l" bandwidth="125MBps" latency="50us" sharing_policy="SPLITDUPLEX"/>
//         <route src="a" dst="b"> <link_ctn id="l" direction="UP"/> ... </route>
//
// The document is kept whole: what is read and written again has the same elements and attributes, also those of SimGrid's
// that become no node here (disks, traces, properties, nested zones, peers, torus clusters).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "topologies/import/imported_node.h"
#include "topologies/import/xml_document.h"

namespace twofold {

struct SimgridXml {
  XmlDocument document;
  bool operator==(const SimgridXml&) const = default;
};

inline constexpr int kMostSimgridHosts = 1024;              // of a platform that becomes a node
inline constexpr int64_t kMostSimgridRouteLinks = 4'000'000;  // of a platform that is written: all routes' links together

// Checks elements, the attributes that each must have, figures with their units, that ids are unique, and that routes name
// links and ends that exist.
absl::StatusOr<SimgridXml> ReadSimgridXml(std::string_view text, std::string_view file);
std::string WriteSimgridXml(const SimgridXml& xml);

// Hosts become devices, in the file's order, of one node without NICs: the whole network is that node's own graph.
// Read: one <cluster> (flat, with a backbone that never limits), or one zone of hosts, alone or within zones of nothing else:
//   Floyd, Dijkstra  routes of one link each are its cables;
//   Full             vertices are found from the routes: a link begins where the one before it ends. Each route must have as
//                    few links as any way between its ends, since shortest routes are what a node has.
// A link that SimGrid shares between both directions (SHARED, used both ways) has its bandwidth each way here: a note says so.
// Refuses FATPIPE links (no flow limits another there), links that are used one way only, and what cannot be told apart.
absl::StatusOr<ImportedNode> NodeOf(const SimgridXml& xml, const ImportAssumptions& assumptions = {});

// Any topology as a Full zone: one host an endpoint, of `flops_per_second`; one SPLITDUPLEX link a cable, one SHARED link for
// each link without a way back of the same figures; the default route of every ordered pair. SimGrid loads it; latencies and
// bandwidths are written to 17 digits. `endpoints`: the first so many and the links between them alone; -1: all.
absl::StatusOr<SimgridXml> SimgridOf(const Topology& topology, double flops_per_second = 1e9, int endpoints = -1);

// "1.25GBps" -> 1.25e9, "50us" -> 5e-5, "2Gf" -> 2e9; negative: no such figure.
enum class SimgridUnit { kBandwidth, kTime, kSpeed };
double SimgridFigure(std::string_view text, SimgridUnit unit);

}  // namespace twofold
