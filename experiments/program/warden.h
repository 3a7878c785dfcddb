// Ends process groups when the process that started them has died without cleaning up, as by SIGKILL.
//
// The kernel can tell a child of its parent's death (PR_SET_PDEATHSIG), but not the processes that the child has
// started. So a separate process listens at the other end of a connection, which closes when this process dies, however
// that happens.
#pragma once

#include <sys/types.h>

namespace twofold {

class Warden {
 public:
  // Starts the warden as a child of this process. Throws std::runtime_error. When this process dies, or this object is
  // destroyed without Dismiss, each group gets SIGTERM, and `kill_after_s` later SIGKILL.
  explicit Warden(double kill_after_s);
  ~Warden();
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;

  void Guard(pid_t group);
  void Forget(pid_t group);  // the group has ended; its number may be reused
  void Dismiss();            // nothing is left to guard; returns once the warden has exited

 private:
  void Tell(pid_t word);

  int to_warden_ = -1;
  pid_t pid_ = -1;
};

}  // namespace twofold
