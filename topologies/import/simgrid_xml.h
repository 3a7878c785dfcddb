// Reads and writes SimGrid platforms (versions 4 and 4.1 of its XML).
//
//     <platform version="4.1">
//       <zone id="world" routing="Full">                        or Floyd, Dijkstra, DijkstraCache; or <cluster/>
//         <host id="a" speed="1Gf"/> <router id="r"/>
//         <link id="l" bandwidth="125MBps" latency="50us" sharing_policy="SPLITDUPLEX"/>
//         <route src="a" dst="b"> <link_ctn id="l" direction="UP"/> ... </route>
//
// The whole document is kept: reading and writing preserves elements and attributes, including SimGrid's features that
// have no counterpart in a node (disks, traces, properties, nested zones, peers, torus clusters).
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

inline constexpr int kMostSimgridHosts = 1024;                // of a platform that is converted to a node
inline constexpr int64_t kMostSimgridRouteLinks = 4'000'000;  // of a platform that is written: summed over all routes

// Checks elements, required attributes, figures with their units, that ids are unique, and that routes refer to
// existing links and ends.
absl::StatusOr<SimgridXml> ReadSimgridXml(std::string_view text, std::string_view file);
std::string WriteSimgridXml(const SimgridXml& xml);

// Hosts become the devices, in the file's order, of one node without NICs: the whole network is the graph of that node.
// Supported are one <cluster> (flat, with a backbone that never limits) and one zone of hosts, alone or inside zones
// that contain nothing else:
//   Floyd, Dijkstra  routes of one link each are the cables;
//   Full             vertices are derived from the routes: a link begins where the previous one ends. Each route must
//                    have as few links as any path between its ends, because a node has shortest routes only.
// A link that SimGrid shares between both directions (SHARED, used both ways) gets its full bandwidth each way here; a
// note says so. Refuses FATPIPE links (flows on them do not limit each other), links that are used one way only, and
// ambiguous platforms.
absl::StatusOr<ImportedNode> NodeOf(const SimgridXml& xml, const ImportAssumptions& assumptions = {});

// Writes any topology as a Full zone: one host for each endpoint, of `flops_per_second`; one SPLITDUPLEX link for each
// cable; one SHARED link with the same figures for each link without a reverse link; the default route of every ordered
// pair. SimGrid can load it; latencies and bandwidths have 17 digits. `endpoints`: write only the first that many
// endpoints and the links between them; -1: all.
absl::StatusOr<SimgridXml> SimgridOf(const Topology& topology, double flops_per_second = 1e9, int endpoints = -1);

// "1.25GBps" -> 1.25e9, "50us" -> 5e-5, "2Gf" -> 2e9; negative if the text is not such a figure.
enum class SimgridUnit { kBandwidth, kTime, kSpeed };
double SimgridFigure(std::string_view text, SimgridUnit unit);

}  // namespace twofold
