// Starts the ranks of a run as processes of this host, and sees them through.
//
// Each is the leader of a process group of its own and reads nothing. Signals go to the groups, so that what a rank has started ends
// with it: SIGINT, SIGTERM, SIGHUP and SIGQUIT, but for those that this process ignores, are handed on to all, which then end in their
// own way; another one, later than host::kSameInterrupt, kills them. When one fails, the others have `grace_s` to find that out and write
// what they know; then they get SIGTERM, and `kTermTime` later SIGKILL. So does what is left of the groups once all ranks have ended,
// and everything, should this process be killed (warden.h). What makes itself a group or session of its own is not followed.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace twofold {

struct RankProcess {
  int rank = 0;
  std::vector<std::string> words;                               // the program, looked for on the PATH, and its arguments
  std::vector<std::pair<std::string, std::string>> variables;   // beside those of this process; an empty value: unset
};
struct SuperviseOptions {
  bool label = false;   // lines that ranks write to stderr begin with "[rank]"
  double grace_s = 10;
};
inline constexpr double kTermTime = 5;  // seconds

// Blocks until all have ended, and what they have started. 0: all ended well; else the exit status of the first that failed (128 and the signal that ended it),
// which is named on stderr; of several that are found to have ended, one that was killed. From the main thread.
int Supervise(const std::vector<RankProcess>& ranks, const SuperviseOptions& options);

}  // namespace twofold
