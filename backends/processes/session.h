// A communication library in this process, and the watch beside it: started once, at the first run, and ended with the process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/watch/watch.h"

namespace twofold::processes {

// Where this process stands among those that were started together.
struct Place {
  int rank = 0, processes = 1;
  int rank_here = 0, processes_here = 1;  // of those on this host
};

// Used from the process's main thread, but for watch().
class Session {
 public:
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return place_.rank; }
  int processes() const { return place_.processes; }
  const Place& place() const { return place_; }
  watch::Watch& watch() { return *watch_; }

  // A run has failed: what is under way is cut off, where the library can. Called by the watch's thread, which must not wait.
  virtual void CutOff() {}
  // For the report: versions, who found whom.
  virtual std::vector<std::string> Notes() const { return {}; }

  // A run has failed, with communication under way that may never end: no further run can be made, and the process has to
  // leave without ending the library in order.
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
