// A communication library in this process, together with the connection to the run's control plane: started once, at
// the first run, and ended with the process.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/control/client.h"

namespace twofold::processes {

// This process's rank among the processes that were started together.
struct Place {
  int rank = 0, processes = 1;
  int rank_here = 0, processes_here = 1;  // among those on this host
};

// Used from the process's main thread, except control().
class Session {
 public:
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return place_.rank; }
  int processes() const { return place_.processes; }
  const Place& place() const { return place_; }
  control::Client& control() { return *control_; }

  // A run has failed: aborts communication in progress, if the library can. Called on the control client's thread, so
  // it must not block.
  virtual void CutOff() {}
  // A generation of members is broken: ends communication in progress with an error. The process goes on. Likewise.
  virtual void Disconnect() {}
  // For the report: versions, and how the processes found each other.
  virtual std::vector<std::string> Notes() const { return {}; }

  // A run has failed with communication in progress that may never end. No further run is possible, and the process
  // must exit without finalizing the library.
  void GiveUp();
  bool given_up() const { return given_up_; }

 protected:
  Session() = default;
  // The processes have met.
  void Attach(std::unique_ptr<control::Client> client) {
    control_ = std::move(client);
    place_ = {.rank = control_->rank(),
              .processes = control_->size(),
              .rank_here = control_->local_rank(),
              .processes_here = control_->local_size()};
  }
  // An orderly end, before gRPC's own static objects are destroyed.
  void Part() { control_.reset(); }
  bool one_host() const { return place_.processes_here == place_.processes; }

  Place place_;

 private:
  std::unique_ptr<control::Client> control_;
  bool given_up_ = false;
};

}  // namespace twofold::processes
