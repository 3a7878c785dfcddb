// The algorithms of Open MPI's "tuned" collectives as rounds of messages.
//
//   broadcast, reduce   trees: linear, chain, binary, binomial, knomial (radix 4); scatter_allgather;
//                       rabenseifner (reduce)
//   gather, scatter     linear, binomial
//   all_reduce          recursive_doubling, ring, rabenseifner, nonoverlapping (reduce, then broadcast)
//   all_gather          bruck, recursive_doubling, ring, neighbor_exchange
//   reduce_scatter      linear (reduce, then scatter), recursive_doubling, recursive_halving, butterfly
//   all_to_all          linear, pairwise, bruck
//   barrier             linear, recursive_doubling, bruck, tree
// Sources: Thakur, Rabenseifner and Gropp 2005 (recursive doubling and halving, Bruck, Rabenseifner); Chen and others
// 2005 (neighbor exchange); Open MPI 4.1.4's coll/base for the order of partners and for numbers of ranks that are not
// powers of two.
#pragma once

#include <string_view>
#include <vector>

#include "sim/collectives/schedule.h"

namespace twofold::sim {

// Flow::bytes are the message's own bytes. The messages of one rank and round are in sending order.
using Rounds = std::vector<Phase>;

struct OpenMpiAlgorithm {
  Communication::Kind kind;
  int number;  // its number in Open MPI's settings
  std::string_view name;
  void (*make)(const CollectiveShape& shape, Rounds& rounds);  // appends to `rounds`
};
const std::vector<OpenMpiAlgorithm>& OpenMpiAlgorithms();

}  // namespace twofold::sim
