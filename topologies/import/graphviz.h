// A topology as Graphviz draws it (`dot -Tsvg`, or neato and sfdp for large ones).
#pragma once

#include <string>
#include <string_view>

#include "topologies/graph/topology.h"

namespace twofold {

// One undirected edge a cable (two links between the same vertices, one each way) and one arrow for every link without a way
// back, labelled with its rate; vertices of a node stand in a box. Links without vertices are left out, and so are nodes beyond the first `nodes`.
std::string DotOf(const Topology& topology, std::string_view name, int nodes);

}  // namespace twofold
