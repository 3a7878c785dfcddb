// Gloo in this process: its TCP transport, and the connection to the run's control plane.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/bootstrap/session.h"
#include "backends/gloo/context.h"
#include "backends/host/queue.h"
#include "core/proto/spec.pb.h"

namespace twofold::gloo {

class Session : public BootstrappedSession {
 public:
  // Finds the other processes, as the spec of the first call says. Every call returns the same object; main thread
  // only.
  static absl::StatusOr<Session*> Get(const spec::Spec& spec);

  // The connections among the first `ranks` processes; null on the others. Collective over all processes.
  absl::StatusOr<ContextPtr> World(int ranks);
  // Those among the `size` members of a new generation, of which this process has rank `rank`, within `timeout_s`.
  // Collective over them, on the rank's thread. Throws.
  ContextPtr NewWorld(int rank, int size, double timeout_s);
  void Disconnect() override;
  std::shared_ptr<Abortion> abortion() const;  // of this generation's communication
  const TransportPtr& transport() const { return transport_; }
  const std::shared_ptr<EndedContexts>& ended() const { return ended_; }
  // The rank whose run begins, for what goes wrong on Gloo's own thread. Its run fails if somebody sends more than is
  // expected, for which Gloo would end the process.
  void Began(const std::weak_ptr<host::RankState>& rank);
  std::vector<std::string> Notes() const override { return notes_; }

 private:
  Session() = default;
  absl::Status Start(const spec::Spec& spec);
  static void Finish();

  TransportPtr transport_;
  Exchange Exchanges();
  mutable std::mutex mutex_;
  std::shared_ptr<Abortion> abortion_ = std::make_shared<Abortion>();  // guarded by mutex_
  const std::shared_ptr<EndedContexts> ended_ = std::make_shared<EndedContexts>();
  std::vector<std::string> notes_;
};

}  // namespace twofold::gloo
