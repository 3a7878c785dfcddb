// A session whose processes find each other through a bootstrap.
#pragma once

#include <memory>
#include <string>

#include "backends/bootstrap/bootstrap.h"
#include "backends/processes/session.h"
#include "core/proto/spec.pb.h"

namespace twofold {

class BootstrappedSession : public processes::Session {
 protected:
  // Finds the other processes, as the spec says, and this one's place among them. Errors begin with `fabric`.
  absl::Status Meet(const spec::Spec& spec, const std::string& fabric);
  // Then: starts the watch. Throws std::runtime_error.
  void StartWatch();
  // An orderly end, before gRPC's own static objects are destroyed.
  void Part();

  Bootstrap& bootstrap() { return *bootstrap_; }
  bool one_host() const { return place_.processes_here == place_.processes; }

 private:
  std::unique_ptr<Bootstrap> bootstrap_;
};

}  // namespace twofold
