// The conformance suite as a table: what every fabric must do.
//
// A case is a plain function of a rank, so that the same table serves the tests of the registry's rows and those that prove
// that a broken backend fails it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/rig.h"

namespace twofold::conformance {

struct Case {
  std::string name;
  std::vector<int> worlds;  // sizes that it runs in, kMostRanks at most
  std::function<void(Rig&)> body;
};

inline constexpr int kMostRanks = 7;

std::vector<Case> OperationCases();  // each operation by itself: in the world, in sub-groups, repeated
std::vector<Case> OverlapCases();    // many at once
std::vector<Case> MessageCases();    // order, tags, any source
std::vector<Case> GroupCases();      // who is in a group, and what it counts
std::vector<Case> TransferCases();   // between a device's memory and its host's

std::vector<Case> AllCases();

}  // namespace twofold::conformance
