// The parts of Flows (flows.h): groups of sets, bundles, who owns which set, what is active and what is left of it. For
// the files of Flows alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include "sim/flows.h"
#include "sim/link_history.h"
#include "sim/sharing/flow_classes.h"
#include "sim/sharing/flow_solution.h"

namespace twofold::sim {

inline constexpr double kNever = std::numeric_limits<double>::infinity();  // a time

struct Flows::Group {
  FlowClasses classes;
  std::vector<std::vector<int>> zones = {};  // by link class
  // Of one set: its solution alone, of some bundle, and that bundle's scale. Others differ by a factor.
  std::shared_ptr<FlowSolution> alone = nullptr;
  double scale = 1;
};

class Flows::Bundle : public LinkHistory::Shares {
 public:
  std::vector<LinkHistory::Share> Get() const override;
  GroupPtr group;
  double scale = 1;                        // its flows' bytes, relative to those of the group's set
  std::vector<double> bytes;               // by class
  std::shared_ptr<FlowSolution> solution;  // complete
  double first = kNever;                   // when the first lot ends, since the beginning
};

// The lots of a bundle that shares its links with others, by kind (FlowClasses::lots).
struct Flows::Owner {
  BundlePtr bundle;
  std::vector<size_t> left;  // classes that have not ended
  size_t kinds = 0;          // kinds of lots that have not ended
  double first = kNever;     // when the first lot ended
  Done done;

  // All flows of one class have ended, and with them what only they were left of. Returns whether that was all.
  bool End(const std::vector<int>& kinds_of_lots, double time) {
    const size_t before = kinds;
    for (const int k : kinds_of_lots) {
      if (--left[static_cast<size_t>(k)] == 0) --kinds;
    }
    if (kinds < before) first = std::min(first, time);
    return kinds == 0;
  }
};

struct Flows::Active {
  GroupPtr group;
  double begin;
  std::vector<double> bytes;  // by class, at the beginning; of a bundle alone: its own
  std::shared_ptr<FlowSolution> solution;
  BundlePtr bundle = nullptr;                       // if it has met no other
  Done done = nullptr;                              // for that bundle
  std::vector<std::shared_ptr<Owner>> owners = {};  // by set, after a meeting; null: the set is not there
  Crossed crossed = nullptr;                        // null: all link classes of the group
  size_t next = 0;                                  // step
  size_t loaded = 0;      // steps whose loads its zones have; fewer than `next` if it is alone
  Later solve = nullptr;  // not null: it is unsolved, as others may be
  double most = 0;        // of an unsolved one: as BeginUnsolved says
};

struct Flows::Rest {
  GroupPtr group;
  Crossed crossed;                                  // as in Active
  size_t set = 0;                                   // of the group
  GroupPtr told_apart_by = nullptr;                 // null: flows with the same bytes were alike all the time
  std::shared_ptr<const std::vector<double>> left;  // by class of `group`
  std::shared_ptr<Owner> owner;
};

// Calls visit(zone) for each zone of these link classes.
template <class Visit>
void Flows::ForZones(const Group& group, const Crossed& crossed, Visit&& visit) {
  const auto of = [&](const std::vector<int>& zones) {
    for (const int z : zones) visit(static_cast<size_t>(z));
  };
  if (crossed == nullptr)
    for (const std::vector<int>& zones : group.zones) of(zones);
  else
    for (const int l : *crossed) of(group.zones[static_cast<size_t>(l)]);
}

}  // namespace twofold::sim
