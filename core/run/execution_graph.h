// What a rank did and what it waited for, as a graph of nodes (core/proto/chakra.proto), for fabrics that can tell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twofold {

// For the rank's own thread.
class ExecutionGraph {
 public:
  virtual ~ExecutionGraph() = default;
  // A node of the host without duration: where the rank's program is.
  virtual void Mark(std::string_view name) = 0;
  // Chakra's nodes so far, each behind its length. The `pg_name` of a communication is a place in groups(). Moves them
  // out.
  virtual std::string TakeNodes() = 0;
  // The rank's block of a GOAL schedule (backends/simulated/goal.h); "" if none was asked for. Moves it out.
  virtual std::string TakeGoal() = 0;
  struct Group {
    std::string name;
    std::vector<int> ranks;  // by rank in the group
  };
  virtual const std::vector<Group>& groups() const = 0;
};

// Marks of steps, which are numbered from 0: "step 3 begins". "step 4 ends" ends all that began since.
inline constexpr std::string_view kStepMark = "step ", kBeginsMark = " begins", kEndsMark = " ends";

}  // namespace twofold
