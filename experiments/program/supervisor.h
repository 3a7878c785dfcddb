// Starts the ranks of a run as processes of this host, and supervises them until they end.
//
// Each rank leads a process group of its own and has no input. Signals go to the groups, so that whatever a rank has
// started ends with it. A launcher such as mpirun may stand for all ranks: then signals go to its children, the ranks,
// because the launcher itself would kill them within seconds. SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGUSR1, except
// those that this process ignores, are forwarded to all ranks, which then end in their own way. A further signal, later
// than host::kSameInterrupt, kills them. When one rank fails, the others have `grace_s` to notice and to write their
// results; then they get SIGTERM, and `kTermTime` later SIGKILL. So do processes left in the groups once all ranks have
// ended, and all processes if this process is killed (warden.h). A process that makes a group or session of its own is
// not tracked.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace twofold {

struct RankProcess {
  int rank = 0;
  std::vector<std::string> words;  // the program, looked up in PATH, and its arguments
  // in addition to those of this process; an empty value unsets one
  std::vector<std::pair<std::string, std::string>> variables;
  std::string launcher;  // if it is a launcher that starts the ranks as its children: its name
};
struct SuperviseOptions {
  bool label = false;  // prefix the lines that ranks write to stderr with "[rank]"
  double grace_s = 10;
  // The run goes on without ranks that fail, apart from rank 0 (train.elastic). So many of them are replaced: the same
  // process is started again, with TWOFOLD_JOIN=1.
  bool elastic = false;
  int replacements = 0;
};
inline constexpr double kTermTime = 5;  // seconds

struct Supervised {
  // 0 if all succeeded, else that of the first that failed: 128 plus the signal that ended it. Elastic: rank 0's
  int exit_status = 0;
  bool interrupted = false;  // this process got a signal to hand on
};

// Blocks until all ranks, and all processes that they started, have ended. The first that failed is named on stderr. If
// several are found to have ended at once, one that was killed is preferred. Call it from the main thread.
Supervised Supervise(const std::vector<RankProcess>& ranks, const SuperviseOptions& options);

}  // namespace twofold
