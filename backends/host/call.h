// One call on a group by one rank: what queues run, what messages name, what ranks compare.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "core/comm/communication.h"
#include "core/device/device.h"

namespace twofold::host {

// A group as other processes know it.
struct GroupIdentity {
  uint64_t id = 0;  // the same at all of its ranks, and no other group's
  std::string label;
  std::vector<int> ranks;  // of the world, by rank in the group
};

struct Call {
  std::shared_ptr<const std::string> group;  // "world", "tp (ranks 2, 3)"
  Communication communication{};             // borrowed operands; unused for a split
  uint64_t sequence = 0;                     // from 1; collectives, messages and splits of a group are counted apart
  bool split = false;                        // collective over the group; the 0th makes the group itself
  // On a device whose compute stream is not the host: all that was launched on it before the call. Else it has happened.
  Event after{};
  // Times on the run's clock. When the compute stream had done all that was launched before: known when the call is issued, or,
  // where `after` stands for it, to who does the call.
  mutable double issued = 0;
  // Likewise, each 0 where nobody but the clock decides it; written by who does the call, before it is done.
  mutable double began = 0;     // on a stream that is not the host
  mutable double finished = 0;  // by links, or on a stream of a GPU
  std::shared_ptr<const GroupIdentity> identity{};  // null where all ranks live in one process
  std::string ToString() const;  // "all_reduce(sum) of f32[10] (40 bytes), collective 3 of group world"
};

// "world", or the name with the group's ranks in the world.
std::shared_ptr<const std::string> GroupLabel(const std::string& name, const std::vector<int>& world_ranks);

// Whether two ranks' calls are the same collective: kind, operation, root, and the type and count of the side that all
// ranks must have alike. (Of all_to_all_v the type only: counts differ by rank.)
bool SameCollective(const Communication& a, const Communication& b);
bool Reduces(Communication::Kind kind);
bool Rooted(Communication::Kind kind);
// The side of which every rank of the group must have as many elements; null where there is none.
const Tensor* EqualSide(const Communication& c);

std::string WithBytes(const Communication& c);  // "all_reduce(sum) of f32[10] (40 bytes)"
// "collective mismatch in group world, collective 3: rank 0 calls a, rank 1 calls b"; the lower rank comes first. Ranks
// are those of the world.
std::string MismatchText(const std::string& group, const std::string& where, int rank_a, const std::string& a, int rank_b,
                         const std::string& b);

// Throws the type that belongs to `kind`.
[[noreturn]] void Throw(RankFailure::Kind kind, int rank, const std::string& message);

}  // namespace twofold::host
