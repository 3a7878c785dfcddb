// The process group of ranks that each have a GPU, on NCCL.
//
// A group has a communicator and a stream of its own. The host gives the stream a call's work as it issues it, in program order over
// all groups, as NCCL wants it; the group's queue (backends/host/queue.h) only waits for the end. Calls in which NCCL would have the
// host wait for peers are given to the stream by the queue's thread instead, when all before them are done: the making of a
// communicator, the first message to or from a peer and the first collective of a kind and size (NCCL connects ranks when they
// first need it), and receives from any source (offers.h). What is issued meanwhile follows from there.
//
// NCCL matches messages by their order alone. Within a batch those with one peer go by tag, so that both sides may list them as they
// like; apart from that, both sides must have the same tags in the same order. The watch compares them, and sizes, as it does
// collectives: a difference ends the run within a second or, where ranks then wait, at the time-out at the latest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/host/queue.h"
#include "backends/nccl/communicator.h"
#include "backends/nccl/offers.h"
#include "backends/processes/fabric.h"
#include "backends/watch/watch.h"

namespace twofold::nccl {

// What the groups of one rank share in one run.
struct RunParts {
  RunParts(host::RunState& run, watch::Watch& watch, int rank, int max_ctas, std::shared_ptr<Offers> offers)
      : watch(watch), max_ctas(max_ctas), communicators(run, rank), offers(std::move(offers)) {}
  watch::Watch& watch;
  const int max_ctas;  // of a communicator; 0: NCCL's choice
  Communicators communicators;
  const std::shared_ptr<Offers> offers;
};

// What the host and the queue's thread of one group work on. Outlives the group where the thread is stuck.
class Engine;

class NcclGroup : public processes::Group {
 public:
  // The world: its communicator is made by the first call of the queue.
  NcclGroup(std::shared_ptr<const host::GroupIdentity> identity, int rank, const ncclUniqueId& id, std::shared_ptr<RunParts> parts,
            std::shared_ptr<host::RankState> owner, CommunicationStats& stats);
  // A part of another group.
  NcclGroup(std::string name, std::shared_ptr<Engine> engine, CommunicationStats& stats);
  // Finishes what was issued, but for a run that has failed: then what hangs in NCCL is left where it is. The world also ends all
  // communicators.
  ~NcclGroup() override;

  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;
  void Drain() override;

 private:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<watch::CallLog> log_;
  const int exceptions_;  // in flight when this was made
  uint64_t collectives_ = 0, messages_ = 0, splits_ = 0;
  std::vector<uint64_t> sends_;  // to each peer, that were issued
  std::unique_ptr<host::Queue> queue_;
};

}  // namespace twofold::nccl
