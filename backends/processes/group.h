// A group of ranks that are processes. The watch reads the log of its collectives, and compares it with other ranks'.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backends/host/queued_group.h"
#include "backends/watch/watch.h"

namespace twofold::processes {

class Group : public host::QueuedGroup {
 protected:
  Group(std::string name, int rank, std::shared_ptr<const host::GroupIdentity> identity,
        std::shared_ptr<host::RankState> owner, watch::Watch& watch, CommunicationStats& stats)
      : QueuedGroup(std::move(name), rank, identity->ranks, identity->label, identity, std::move(owner), stats,
                    BlockedCalls::kMayHang),
        log_(std::make_shared<watch::CallLog>(std::move(identity), rank)) {
    watch.AddLog(log_);
  }

  const std::shared_ptr<watch::CallLog> log_;
};

}  // namespace twofold::processes
