// The process group of ranks that each have a GPU, on NCCL.
//
// Each group has its own communicator and stream. The host enqueues each call as it issues it, in program order over
// all groups, as NCCL requires; the group's queue (backends/host/queue.h) only waits for the end. Calls in which NCCL
// would block the host until peers arrive are enqueued by the queue's thread instead, once all calls before them are
// done. These are: creating a communicator, the first message to or from a peer and the first collective of a kind and
// size (NCCL connects ranks lazily), and receives from any source (offers.h). Calls issued after such a call are
// enqueued by the thread, too, until it has caught up.
//
// NCCL matches messages by order alone. Within a batch, messages with the same peer are sorted by tag, so that the two
// sides may list them in different orders. Otherwise both sides must use the same tags in the same order. The control
// plane compares tags and sizes, as it does collectives. A mismatch ends the run within a second or, if ranks then
// wait, at the time-out at the latest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/nccl/communicator.h"
#include "backends/nccl/offers.h"
#include "backends/processes/group.h"

namespace twofold::nccl {

// What the groups of one rank share during one run, or one generation of an elastic run's members.
struct RunParts {
  RunParts(host::RunState& run, control::Client& control, int rank, bool elastic, int max_ctas,
           std::shared_ptr<Offers> offers)
      : control(control), max_ctas(max_ctas), communicators(run, rank, !elastic), offers(std::move(offers)) {}
  control::Client& control;
  const int max_ctas;  // per communicator; 0: NCCL's choice
  Communicators communicators;
  const std::shared_ptr<Offers> offers;
};

// The part of one group that the host and the queue's thread share. Outlives the group if the thread is stuck.
class Engine;

class NcclGroup : public processes::Group {
 public:
  // The world; the first call of the queue creates its communicator.
  NcclGroup(std::shared_ptr<const host::GroupIdentity> identity, int rank, const ncclUniqueId& id,
            std::shared_ptr<RunParts> parts, std::shared_ptr<host::RankState> owner, CommunicationStats& stats);
  // A group made by splitting another.
  NcclGroup(std::string name, std::shared_ptr<Engine> engine, CommunicationStats& stats);
  // Finishes what was issued. If the run has failed, calls that hang in NCCL are left there. The world's destructor
  // also ends all communicators.
  ~NcclGroup() override;

  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;

 private:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;

  const std::shared_ptr<Engine> engine_;
  std::vector<uint64_t> sends_;  // number of sends issued to each peer
};

}  // namespace twofold::nccl
