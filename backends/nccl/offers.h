// Tracks which messages wait for a receive from any source.
//
// NCCL's receives name their sender. So a rank that receives from any source learns outside NCCL, through the control
// plane, whose stream has reached a message for it. It tells the group's ranks once that it listens; from then on they
// announce their messages. Until then, and in groups where nobody listens, a message costs one map lookup.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "backends/control/client.h"
#include "backends/host/call.h"
#include "backends/host/run_state.h"

namespace twofold::nccl {

// Announces that the sender's stream has reached a message. Messages from one rank to another on a group are numbered
// from 1.
struct Offer {
  int from = 0;  // in the world
  Tag tag = 0;
  uint64_t sequence = 0;
};

// The offers of one rank in one run; thread-safe. Ranks are world ranks.
class Offers {
 public:
  Offers(control::Client& control, int rank) : control_(control), rank_(rank) {}

  void Come(uint64_t group, int to, Tag tag, uint64_t sequence);  // this rank's stream has reached a message
  void Gone(uint64_t group, int to, uint64_t sequence);           // the stream has finished it
  // Blocks until there is an offer on `group` for which `wanted` returns kTake, and removes it. Offers judged kOld are
  // dropped, and so are offers from ranks outside the group. Throws when the run ends; `doing` is the call that waits.
  enum Verdict { kTake, kKeep, kOld };
  Offer Await(const host::GroupIdentity& group, const host::RunState& run, const host::Call& doing,
              absl::FunctionRef<Verdict(const Offer&)> wanted);

  void Hear(const control::Relayed& message);  // from the control plane

 private:
  void Tell(uint64_t group, int to, const Offer& offer);
  void Listen(const host::GroupIdentity& group);

  control::Client& control_;
  const int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<uint64_t, int>, std::vector<Offer>> own_;  // by group and receiver: messages waiting now
  std::set<std::pair<uint64_t, int>> listeners_;
  std::set<uint64_t> listens_;                    // groups on which this rank listens
  std::map<uint64_t, std::vector<Offer>> heard_;  // by group
};

}  // namespace twofold::nccl
