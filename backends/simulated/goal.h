// What a simulated rank does as a block of a GOAL schedule: the text that LogGOPSim's txt2bin reads (Hoefler, Siebert
// and Lumsdaine 2009, "Group Operation Assembly Language - A Flexible Way to Express Collective Communication").
//
//   rank 3 {
//   l1: calc 25000 cpu 1              work, in ns; each stream is a cpu, the host's is 0
//   l2: send 4096b to 4 tag 7 cpu 2   nothing but messages: collectives are the flows of the schedule that was
//   simulated l2 requires l1
//   }
//
// Of a communication of several messages, l5b is the begin and l5 the end, both `calc 0`. Messages of a phase follow
// all of the rank's messages of the phase before.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "sim/collectives/schedule.h"

namespace twofold {

struct GoalMessage {
  int phase;  // ascending
  bool send;
  int peer;  // of the world
  int64_t bytes;
  uint32_t tag;  // no other message between these two ranks has it
};

// One rank's block. Nodes are numbered as in its graph (rank_graph.h).
class GoalRank {
 public:
  // A block of more than `most_bytes` is refused.
  GoalRank(int rank, int64_t most_bytes) : rank_(rank), most_(most_bytes) {}

  void Works(int64_t node, std::vector<int64_t> after, const std::string& stream, double seconds);
  // What it consists of is told later.
  void Communicates(int64_t node, std::vector<int64_t> after, const std::string& stream);
  void Consists(int64_t node, const std::vector<GoalMessage>& messages);
  void Refuse(std::string why) { refused_ = std::move(why); }

  // The block; throws RankFailure if there is none. Moves it out.
  std::string Take();

 private:
  struct Open {
    std::vector<int64_t> after;
    int cpu;
  };
  int CpuOf(const std::string& stream);
  void CheckSize();
  void Line(std::string_view label, std::string_view what, int cpu);
  void Require(std::string_view label, std::string_view before);
  void After(std::string_view label, const std::vector<int64_t>& nodes);
  void AddPhases(const std::string& label, int cpu, const std::vector<GoalMessage>& messages);

  const int rank_;
  const int64_t most_;
  std::map<std::string, int> cpus_;
  std::map<int, double> exact_;        // by cpu: the end of its work so far, if it did nothing else, in ns
  std::map<int64_t, Open> open_;       // communication whose messages are not known yet
  std::string operations_, requires_;  // labels must be defined before they are used
  std::string refused_;
};

// Both ends of a message get the same tag.
class GoalTags {
 public:
  uint32_t Next(size_t count) {
    next_ += static_cast<uint32_t>(count);
    return next_ - static_cast<uint32_t>(count);
  }
  // The first of `count`, for a message from one rank of a group to another; the other end that asks gets the same, in
  // the order in which each end asks.
  uint32_t ForMessage(const void* group, int from, int to, int tag, bool send, size_t count);

 private:
  uint32_t next_ = 1;
  struct Ahead {
    std::deque<uint32_t> sends, receives;  // that the other end has not asked for
  };
  std::map<std::tuple<const void*, int, int, int>, Ahead> ahead_;
};

// What ranks send each other. A schedule without flows (a barrier's) has the time of its rounds only; its ranks would
// not wait for one another, so they get messages of 0 bytes, by dissemination.
sim::Schedule WithFlows(const sim::Schedule& schedule, int ranks);
size_t FlowsOf(const sim::Schedule& schedule);
// The messages of each rank of a group. `ranks`: of the world, by rank in the group.
std::vector<std::vector<GoalMessage>> GoalMessagesOf(const sim::Schedule& schedule, std::span<const int> ranks,
                                                     uint32_t first_tag);

}  // namespace twofold
