// Ends process groups when the process that started them has died without a word, as by SIGKILL.
//
// The kernel can tell a child of its parent's death (PR_SET_PDEATHSIG), but not what that child has started. So a process of its own
// listens at the other end of a connection, which closes when this process is gone, whatever becomes of it.
#pragma once

#include <sys/types.h>

namespace twofold {

class Warden {
 public:
  // Starts it, as a child of this process. Throws std::runtime_error.
  // Once this process is gone, or this object without Dismiss, each group gets SIGTERM, and `kill_after_s` later SIGKILL.
  explicit Warden(double kill_after_s);
  ~Warden();
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;

  void Guard(pid_t group);
  void Forget(pid_t group);  // it has ended: its number may become another's
  void Dismiss();            // nothing is left to guard; returns once it has gone

 private:
  void Tell(pid_t word);

  int to_warden_ = -1;
  pid_t pid_ = -1;
};

}  // namespace twofold
