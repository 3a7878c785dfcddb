// Ranks by class: which ranks of a run do the same at the same times, so that one of them can be simulated for all.
//
// Two ranks are in one class if they are of the same kind (they run the same operations on tensors of the same sizes,
// equally fast), and if in each list of groups their groups consist, place by place, of ranks of the same classes, and
// lie on the same kind of places of the network. This is the coarsest such partition, found by colour refinement: kinds
// are the first classes, and classes are split as long as groups tell their ranks apart. So a slow rank is a class of
// its own; the ranks that wait for it are classes, too, by what they have to do with it; all others stay together.
//
// Why one rank of a class can stand for all: by induction over the run's events, ranks of one class reach each
// communication at the same time, and so do the ranks that they meet there. What it takes from there on depends on the
// places alone, as far as Meetings::places knows them; SimulatedGroup checks it while the run goes on.
//
// Cost: for N ranks and L lists, O(N L) for each round, with few rounds.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/comm/device_mesh.h"

namespace twofold {

// Groups in which ranks meet; no rank is in two of them.
struct Meetings {
  std::shared_ptr<const GroupList> groups;
  std::vector<int> places = {};  // by group: equal numbers for groups on the same kind of places; empty: all are alike
};

// `kinds`: a number for each rank. Returns, for each rank, the first rank of its class.
std::vector<int> RefineClasses(std::vector<int> kinds, std::span<const Meetings> meetings);
// The ranks that stand for classes, in order.
std::vector<int> StandIns(std::span<const int> classes);
// Numbers that are equal for ranks with equal numbers in both.
std::vector<int> BothOf(std::span<const int> a, std::span<const int> b);

}  // namespace twofold
