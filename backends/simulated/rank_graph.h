// What a simulated rank does and what it waits for, as a graph of nodes: an execution trace in Chakra's format
// (core/proto/chakra.proto).
//
// A node follows the one before it on its stream, whatever the stream was made to wait for since, and what the host had
// done when it issued it. So the graph holds on any network: it says nothing of when communication ended. Kernels keep
// the seconds that they took here, also those that communication beside them cost.
// Not in the graph: polling (Work::Test), and that the slowest of several devices comes later than the average one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/simulated/goal.h"
#include "core/comm/communication.h"
#include "core/proto/chakra.pb.h"
#include "core/run/execution_graph.h"
#include "sim/timeline.h"

namespace twofold {

class RankGraph : public sim::Timeline::Observer, public ExecutionGraph {
 public:
  // `host`: the line that issues everything; it is also that of compute where there is no GPU.
  // `chakra`: nodes are kept. `goal`: also kept as a block of a GOAL schedule, unless null.
  RankGraph(int rank, const sim::Timeline& host, bool chakra, std::unique_ptr<GoalRank> goal)
      : rank_(rank), host_(host), chakra_(chakra), goal_(std::move(goal)) {}

  // The stream's name, as in traces. A line that is not named is "host".
  void Name(const sim::Timeline& line, std::string name) { lines_[&line] = {.name = std::move(name)}; }

  void Advances(const sim::Timeline& line, double seconds, double not_before, std::string_view name) override;
  void Waits(const sim::Timeline& line, const sim::TimePoint& point) override;
  void Records(const sim::Timeline& line, sim::TimePoint& point) override;

  // A collective, or all messages of a call, which the line reaches next. `done`: when this rank's part ends.
  // `ranks`: the group's, by rank in it. Returns the node, or the first of the messages', which follow one another.
  int64_t Communicates(const sim::Timeline& line, const std::string& group, const std::vector<int>& ranks,
                       const Communication& communication, sim::TimePoint& done);

  void Mark(std::string_view name) override;
  std::string TakeNodes() override { return std::exchange(nodes_, {}); }
  // Waits for what OpenUntil told: ranks may end before a collective that the others have yet to reach.
  std::string TakeGoal() override;
  const std::vector<Group>& groups() const override { return groups_; }
  GoalRank* goal() { return goal_.get(); }  // null: not asked for
  // A collective whose messages are known when it is done.
  void OpenUntil(sim::TimePointPtr done);
  // How the rank blocks until a point is known; no time of its host passes.
  void SetBlock(std::function<void(const sim::TimePointPtr&)> block) { block_ = std::move(block); }

 private:
  struct Line {
    std::string name = "host";
    int64_t last = -1, host = -1;  // nodes: its last one, and the last one of the host's that it follows
    std::vector<int64_t> awaited = {};
  };
  // The next node of the line; Add appends it.
  chakra::Node Next(const sim::Timeline& line, std::string_view name, chakra::NodeType type, double seconds);
  int64_t Add(const sim::Timeline& line, const chakra::Node& node);
  void AddToGoal(const std::string& stream, const chakra::Node& node);
  int64_t Join(const sim::Timeline& line);  // a node that follows all that the line does and has waited for
  int GroupOf(const std::string& name, const std::vector<int>& ranks);

  const int rank_;
  const sim::Timeline& host_;
  const bool chakra_;
  const std::unique_ptr<GoalRank> goal_;
  std::vector<sim::TimePointPtr> open_;
  std::function<void(const sim::TimePointPtr&)> block_;
  std::unordered_map<const sim::Timeline*, Line> lines_;
  std::map<std::pair<std::string, std::vector<int>>, int> numbers_;  // of groups
  std::vector<Group> groups_;
  int64_t next_ = 0;
  std::string nodes_;
};

}  // namespace twofold
