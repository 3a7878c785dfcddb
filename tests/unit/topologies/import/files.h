// Files of tests/data/topologies, and what a graph holds.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "topologies/import/imported_node.h"

namespace twofold::test {

inline std::string ReadTopologyFile(const std::string& name) {
  std::ifstream in("tests/data/topologies/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The vertex of that name.
inline int VertexNamed(const Graph& graph, const std::string& name) {
  for (size_t v = 0; v < graph.vertices.size(); ++v) {
    if (graph.vertices[v].name == name) return static_cast<int>(v);
  }
  ADD_FAILURE() << "no vertex " << name;
  return 0;
}

// GB/s of the link of that medium from `a` to `b`; 0: there is none.
inline double RateBetween(const Graph& graph, const std::string& a, const std::string& b, Medium medium) {
  const int from = VertexNamed(graph, a), to = VertexNamed(graph, b);
  for (const Link& link : graph.links) {
    if (link.from == from && link.to == to && link.medium == medium) return link.bandwidth.value() / 1e9;
  }
  return 0;
}

}  // namespace twofold::test
