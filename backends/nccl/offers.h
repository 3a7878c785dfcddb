// Which messages wait for a receive from any source.
//
// NCCL's receives name their sender. So a rank that receives from any source learns beside NCCL, through the watch, whose stream has
// come to a message for it: it tells the group's ranks once that it listens, and from then on they tell it. Until then, and in
// groups where nobody listens, a message costs a look into a map.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "backends/host/call.h"
#include "backends/host/run_state.h"
#include "backends/watch/watch.h"

namespace twofold::nccl {

// A message's sender's stream has come to it. Messages from one rank to another on a group count from 1.
struct Offer {
  int from = 0;  // in the world
  Tag tag = 0;
  uint64_t sequence = 0;
};

// Of one rank in one run; any thread may use it. Ranks are those of the world.
class Offers {
 public:
  Offers(watch::Watch& watch, int rank) : watch_(watch), rank_(rank) {}

  void Come(uint64_t group, int to, Tag tag, uint64_t sequence);  // this rank's stream has come to a message
  void Gone(uint64_t group, int to, uint64_t sequence);           // and is through with it
  // Blocks until there is an offer on `group` that `wanted` accepts, and takes it away. Offers that it calls old are forgotten, and
  // so are those of ranks that are not of the group.
  // Throws when the run ends; `doing` is what does.
  enum Verdict { kTake, kKeep, kOld };
  Offer Await(const host::GroupIdentity& group, const host::RunState& run, const host::Call& doing,
              absl::FunctionRef<Verdict(const Offer&)> wanted);

  void Hear(const control::Relayed& message);  // from the watch

 private:
  void Tell(uint64_t group, int to, const Offer& offer);
  void Listen(const host::GroupIdentity& group);

  watch::Watch& watch_;
  const int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<uint64_t, int>, std::vector<Offer>> own_;  // by group and receiver: what waits now
  std::set<std::pair<uint64_t, int>> listeners_;
  std::set<uint64_t> listens_;                  // groups of whose messages this rank has asked to be told
  std::map<uint64_t, std::vector<Offer>> heard_;  // by group
};

}  // namespace twofold::nccl
