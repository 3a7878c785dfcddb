// The process group of ranks that are processes connected by Gloo.
//
// Each group has a context, so TCP connections, of its own, and makes blocking calls on its own thread
// (backends/host/queue.h). So communication overlaps with compute, and groups do not wait for each other.
#pragma once

#include <memory>
#include <string>

#include "backends/gloo/context.h"
#include "backends/processes/group.h"

namespace twofold::gloo {

// What a group and its communication thread use. Lives as long as the group or the thread.
struct Endpoint {
  ContextPtr context;
  TransportPtr transport;
  std::shared_ptr<Abortion> abortion;
  std::shared_ptr<EndedContexts> ended;
  std::string name;
  std::shared_ptr<const host::GroupIdentity> identity;
};

class GlooGroup : public processes::Group {
 public:
  GlooGroup(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<host::RankState> owner, control::Client& control,
            CommunicationStats& stats);
  // Finishes what was issued. If the run has failed, calls that hang are left there.
  ~GlooGroup() override;

  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;

 private:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;

  const std::shared_ptr<Endpoint> endpoint_;
  control::Client& control_;
  CommunicationStats::Entry splitting_;  // not reported
};

}  // namespace twofold::gloo
