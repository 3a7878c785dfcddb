// A communication library in this process, together with the watch: started once, at the first run, and ended with the
// process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/watch/watch.h"

namespace twofold::processes {

// This process's rank among the processes that were started together.
struct Place {
  int rank = 0, processes = 1;
  int rank_here = 0, processes_here = 1;  // among those on this host
};

// Used from the process's main thread, except watch().
class Session {
 public:
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return place_.rank; }
  int processes() const { return place_.processes; }
  const Place& place() const { return place_; }
  watch::Watch& watch() { return *watch_; }

  // A run has failed: aborts communication in progress, if the library can. Called on the watch's thread, so it must
  // not block.
  virtual void CutOff() {}
  // For the report: versions, and how the processes found each other.
  virtual std::vector<std::string> Notes() const { return {}; }

  // A run has failed with communication in progress that may never end. No further run is possible, and the process
  // must exit without finalizing the library.
  void GiveUp();
  bool given_up() const { return given_up_; }

 protected:
  Session() = default;
  void StartWatch(const watch::Watch::Options& options) { watch_ = std::make_unique<watch::Watch>(options); }
  void StopWatch() { watch_.reset(); }

  Place place_;

 private:
  std::unique_ptr<watch::Watch> watch_;
  bool given_up_ = false;
};

}  // namespace twofold::processes
