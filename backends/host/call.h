// One rank's call on a group: the unit that queues execute, error messages name and ranks compare.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "core/comm/communication.h"
#include "core/device/device.h"

namespace twofold::host {

// Identifies a group across processes.
struct GroupIdentity {
  uint64_t id = 0;  // the same on all ranks of the group; no other group has it
  std::string label;
  std::vector<int> ranks;  // world ranks, indexed by rank in the group
};

struct Call {
  std::shared_ptr<const std::string> group;  // "world", "tp (ranks 2, 3)"
  Communication communication{};             // borrowed operands; unused for a split
  uint64_t sequence = 0;  // from 1; collectives, messages and splits of a group are counted separately
  bool split = false;     // a collective; number 0 creates the group itself
  // If the device's compute stream is not the host: the point after everything launched on that stream before the call.
  // Otherwise that work is already done.
  Event after{};
  // Times on the run's clock. `issued` is when the compute stream had finished everything launched before the call. It
  // is known when the call is issued or, if `after` stands for it, to the thread that executes the call.
  mutable double issued = 0;
  // Also on the run's clock; 0 if a plain clock reading is used instead. Written by the thread that executes the call,
  // before the call is marked done.
  mutable double began = 0;                         // on a stream that is not the host
  mutable double finished = 0;                      // by the link model, or on a GPU stream
  std::shared_ptr<const GroupIdentity> identity{};  // null if all ranks live in one process
  std::string ToString() const;  // "all_reduce(sum) of f32[10] (40 bytes), collective 3 of group world"
};

// "world", or the name followed by the group's world ranks.
std::shared_ptr<const std::string> GroupLabel(const std::string& name, const std::vector<int>& world_ranks);

// Whether two ranks' calls are the same collective: same kind, operation, root, and type and count of the side that
// must be equal on all ranks. (For all_to_all_v only the type is compared: counts differ by rank.)
bool SameCollective(const Communication& a, const Communication& b);
bool Reduces(Communication::Kind kind);
bool Rooted(Communication::Kind kind);
// The operand that must have the same number of elements on every rank; null if there is none.
const Tensor* EqualSide(const Communication& c);

std::string WithBytes(const Communication& c);  // "all_reduce(sum) of f32[10] (40 bytes)"
// "collective mismatch in group world, collective 3: rank 0 calls a, rank 1 calls b". The lower rank comes first; both
// are world ranks.
std::string MismatchText(const std::string& group, const std::string& where, int rank_a, const std::string& a,
                         int rank_b, const std::string& b);

}  // namespace twofold::host
