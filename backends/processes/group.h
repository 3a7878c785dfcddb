// A group of ranks that are processes. The control plane's client reads the log of its collectives, and compares it
// with other ranks'.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backends/control/client.h"
#include "backends/host/queued_group.h"

namespace twofold::processes {

class Group : public host::QueuedGroup {
 protected:
  Group(std::string name, int rank, std::shared_ptr<const host::GroupIdentity> identity,
        std::shared_ptr<host::RankState> owner, control::Client& control, CommunicationStats& stats)
      : QueuedGroup(std::move(name), rank, identity->ranks, identity->label, identity, std::move(owner), stats,
                    BlockedCalls::kMayHang),
        log_(std::make_shared<control::CallLog>(std::move(identity), rank)) {
    control.AddLog(log_);
  }

  const std::shared_ptr<control::CallLog> log_;
};

}  // namespace twofold::processes
