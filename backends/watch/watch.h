// Watches a run whose ranks are processes: which ranks are alive, what each one is doing, and how the run ends.
//
// If a communication library loses a rank, or ranks call it inconsistently, it hangs, crashes or continues with wrong
// data, and does not say which rank did what. So every process keeps a TCP connection to the hub in rank 0's process.
// This adds nothing to the latency of a call: calls are recorded in memory (call_log.h, RunState), and a watch thread
// compares the records some times a second (observer.h). A process is lost if its connection breaks, or if it stays
// connected but is silent, because it is stopped or its host hangs. A call that lasts longer than fabric.timeout_s, an
// exception or a difference in the records makes the hub (hub.h) ask every rank what it is doing, find the cause
// (inquest.h) and tell all ranks.
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
    // Where the hub listens: a numeric address or a name of process 0's host. "": the loopback address if all are on
    // one host, else every address.
    std::string bind = {};
    // Process 0's host, as others have reached it; tried before its name, which may not resolve.
    std::string address = {};
    std::function<void(std::string& bytes)> broadcast;  // sends process 0's bytes to all; collective
    double connect_timeout_s = 60;
    // Minimum silence before a process is considered missing, however short fabric.timeout_s is. The same on all
    // processes.
    double least_silence_s = 15;
  };
  // Collective over the processes. Throws std::runtime_error naming what could not be reached.
  explicit Watch(const Options& options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // ---- One run, from the process's main thread ----
  //
  // `run` is this process's, null if its rank only stands by; it must live until the verdict. `on_failure` is called on
  // the watch's thread when the run is to end early, after `run` was told.
  void Begin(int world_size, double timeout_s, host::RunState* run, std::function<void()> on_failure);
  control::Verdict AwaitVerdict();   // blocks
  void HandIn(std::string partial);  // call after a failure verdict
  // Waits for the verdict. Returns the results at the process that speaks. After a failure, the others return when that
  // process has ended (or takes too long).
  RunResult Conclude();
  bool speaks() const;  // true on rank 0; if it is lost, on rank 1

  // ---- From the rank's thread ----
  void Finish(std::string result);  // its function has succeeded and everything it issued is done
  void AddLog(std::shared_ptr<CallLog> log);

  // ---- From any thread, while a run lasts: a message to rank `message.to()`, about 100 µs away ----
  void Relay(control::Relayed message);
  // Set the handlers of messages to this rank, called on the watch's thread: of those about the last step, and of all
  // others. Set them before the run begins; may be null.
  void OnLastStep(std::function<void(const control::Relayed&)> hear);
  void OnRelayed(std::function<void(const control::Relayed&)> hear);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace twofold::watch
