// The conformance suite as a table: requirements that every fabric must meet.
//
// A case is a plain function of a rank. So the same table serves the tests of the registry's rows and the tests which
// prove that a broken backend fails the suite.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/rig.h"

namespace twofold::conformance {

struct Case {
  std::string name;
  std::vector<int> worlds;  // world sizes that it runs in, at most kMostRanks
  std::function<void(Rig&)> body;
};

inline constexpr int kMostRanks = 7;

std::vector<Case> OperationCases();  // each operation by itself: in the world, in sub-groups, repeated
std::vector<Case> OverlapCases();    // many operations at once
std::vector<Case> MessageCases();    // order, tags, any source
std::vector<Case> GroupCases();      // members of a group, and its counters
std::vector<Case> TransferCases();   // between device and host memory

std::vector<Case> AllCases();

}  // namespace twofold::conformance
