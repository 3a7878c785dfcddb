// Starts the ranks of a run as processes of this host, and sees them through.
//
// Each is the leader of a process group of its own, reads nothing, and ends with this process whatever becomes of it (what
// it has started itself may live on). SIGINT, SIGTERM, SIGHUP and SIGQUIT, but for those that this process ignores, are handed on to
// all, which then end in their own way; another one, later than host::kSameInterrupt, kills them. When one fails, the others have
// `grace_s` to find that out and write what they know; then they get SIGTERM, and `kTermTime` later SIGKILL.
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

// Blocks until all have ended. 0: all ended well; else the exit status of the first that failed (128 and the signal that ended it),
// which is named on stderr. From the main thread.
int Supervise(const std::vector<RankProcess>& ranks, const SuperviseOptions& options);

}  // namespace twofold
