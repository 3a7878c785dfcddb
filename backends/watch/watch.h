// Beside the communication of a run whose ranks are processes: who is alive, what each does, how the run ends.
//
// A communication library that has lost a rank, or that ranks call in different ways, hangs, crashes or goes on with wrong
// data; none of them says who did what. So every process keeps a TCP connection to the one of rank 0, the hub. It costs
// nothing on the way of a call: calls are noted in memory (call_log.h, RunState), and a thread of the watch compares notes
// some times a second (observer.h). A connection that breaks is a lost process, and so is one that stays but is silent, as of a
// process that is stopped or a host that hangs; a call that lasts longer than fabric.timeout_s, an exception or a difference in
// the notes makes the hub (hub.h) ask everybody what they do, find the cause (inquest.h) and tell all.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/host/run_state.h"
#include "backends/watch/call_log.h"
#include "core/proto/control.pb.h"
#include "core/run/fabric.h"

namespace twofold::watch {

class Watch {
 public:
  struct Options {
    int rank = 0, processes = 1;
    bool one_host = true;
    // Where the hub listens: an address of process 0's host, in numbers, or a name of it. "": at the loopback address, if all are on one
    // host, else at every address.
    std::string bind = {};
    std::string address = {};  // of process 0's host, as others have reached it; tried before its name, which they may not know
    std::function<void(std::string& bytes)> broadcast;  // hands the bytes of process 0 to all; collective
    double connect_timeout_s = 60;
    // How long no process is missed for its silence, however short fabric.timeout_s is. The same at all.
    double least_silence_s = 15;
  };
  // Collective over the processes. Throws std::runtime_error naming what could not be reached.
  explicit Watch(const Options& options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // ---- One run, from the process's main thread ----
  // `run` is this process's, null where its rank only stands by; it must live until the verdict. `on_failure` is called
  // from the watch's thread once the run is to end before its time, after `run` was told.
  void Begin(int world_size, double timeout_s, host::RunState* run, std::function<void()> on_failure);
  control::Verdict AwaitVerdict();      // blocks
  void HandIn(std::string partial);     // after a verdict that is a failure
  // Waits for the verdict. The results at the process that speaks; after a failure, elsewhere, returns when that one has ended (or takes too long).
  RunResult Conclude();
  bool speaks() const;  // rank 0; should it be lost, rank 1

  // ---- From the rank's thread ----
  void Finish(std::string result);  // its function has ended well and all that it issued is done
  void AddLog(std::shared_ptr<CallLog> log);

  // ---- From any thread, while a run lasts: a message of the fabric's own to rank `message.to()`, some 100 us away ----
  void Relay(control::Relayed message);
  // Who hears those that come for this rank, on the watch's thread; set before the run begins, or null.
  void OnRelayed(std::function<void(const control::Relayed&)> hear);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace twofold::watch
