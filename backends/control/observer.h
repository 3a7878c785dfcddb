// The client's view of this process's rank in a run: what it is doing, whether it has failed, and which of its calls
// take too long.
//
// Reports progress and trouble to the hub (hub.h), and answers its questions. Runs on the client's thread, except for
// the logs.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/control/call_log.h"
#include "backends/control/control.pb.h"
#include "backends/host/run_state.h"

namespace twofold::control {

class Observer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Tell = std::function<void(ToHub)>;

  explicit Observer(Tell tell) : tell_(std::move(tell)) {}

  // `run` must live until End or Release; null: the rank stands by, and nothing is reported. `rank` is this process's
  // number.
  void Begin(host::RunState* run, int rank, double timeout_s);
  // Ends the rank's run if `status` is a failure, which `rank` caused, and releases it.
  void End(int rank, const absl::Status& status);
  void Release();
  void Look(Time now);  // every few tens of milliseconds
  void Reply();         // answers the hub's question what this rank is doing
  std::string Doing() const { return run_ == nullptr ? "" : run_->Doing(rank_); }

  // ---- From any thread: what the rank has called on its groups ----
  void AddLog(std::shared_ptr<CallLog> log);
  void ForgetLogs();
  // Of all calls so far, for comparison.
  void AddEnds(google::protobuf::RepeatedPtrField<Point>& points) const;

 private:
  struct Waiting {
    std::shared_ptr<const host::Call> call;
    Time since;
  };

  void LookForFailure(Time now);
  void LookForTimeOut(Time now);
  void Report();

  int rank_ = 0;
  const Tell tell_;
  host::RunState* run_ = nullptr;
  double timeout_s_ = 0;
  bool accused_ = false;  // has reported its trouble
  Time claimed_since_{}, reported_{};
  std::map<const host::Call*, Waiting> waiting_;
  std::string told_doing_;

  mutable std::mutex mutex_;  // guards everything below
  std::vector<std::shared_ptr<CallLog>> logs_;
};

}  // namespace twofold::control
