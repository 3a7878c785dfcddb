// A topology in Graphviz format (for `dot -Tsvg`, or neato and sfdp for large ones).
#pragma once

#include <string>
#include <string_view>

#include "topologies/graph/topology.h"

namespace twofold {

// Each cable (two links between the same vertices, one each way) is one undirected edge, and each link without a
// reverse link is one arrow. Both are labelled with their rate. The vertices of a node are in one box. Links without
// vertices are left out, and so are nodes beyond the first `nodes`.
std::string DotOf(const Topology& topology, std::string_view name, int nodes);

}  // namespace twofold
