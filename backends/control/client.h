// One process's side of the control plane: it comes to rank 0's process, meets the others, exchanges bytes and values
// with them, and takes part in runs.
//
// If a communication library loses a rank, or ranks call it inconsistently, it hangs, crashes or continues with wrong
// data, and does not say which rank did what. So every process keeps a connection to the plane in rank 0's process
// (plane.h). This adds nothing to the latency of a call: calls are recorded in memory (call_log.h, RunState), and the
// client's thread compares the records some times a second (observer.h). A process is lost if its connection breaks, or
// if it stays connected but is silent, because it is stopped or its host hangs. A call that lasts longer than
// fabric.timeout_s, an exception or a difference in the records makes the plane ask every rank what it is doing, find
// the cause (inquest.h) and tell all ranks.
//
// Losing rank 0's process loses the plane. The others' run then ends, elastic or not, and rank 1 speaks for them.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/control/address.h"
#include "backends/control/call_log.h"
#include "backends/control/control.pb.h"
#include "backends/control/desk.h"
#include "backends/control/link.h"
#include "backends/control/loop.h"
#include "backends/control/observer.h"
#include "backends/control/running_clock.h"
#include "backends/control/server.h"
#include "core/run/fabric.h"

namespace twofold::control {

// "process 4711 on node3": this one.
std::string ThisProcessText();

// The members of an elastic run, from one Reform to the next: numbers that a process keeps for the whole run, which are
// its first rank, or a newcomer's fresh number.
struct Generation {
  int number = 1;
  std::vector<int> members;
};

class Client {
 public:
  struct Options {
    int rank = 0, size = 1;
    bool newcomer = false;           // joins a run in progress, and has no rank
    std::vector<std::string> hosts;  // of rank 0: names or numeric addresses, to be tried in this order
    int port = 0;
    double timeout_s = 300;  // for the plane to come up and all to come, and for each exchange and key
    std::string token;       // the job's; "" is allowed only with this host's loopback address
    Tls tls = {};
    std::string address;    // of rank 0's host, as the others reach it; "" if unknown
    std::string described;  // "MPI", "the store at node3:29500"; for the report's notes
    // Minimum silence before a process is considered missing, however short fabric.timeout_s is. The same on all
    // processes.
    double least_silence_s = 15;
  };
  // Returns once all have come; to a newcomer, once it was heard. DEADLINE_EXCEEDED, UNAVAILABLE or
  // FAILED_PRECONDITION, naming the process that is missing, lost or contradicts the others; PERMISSION_DENIED: the
  // plane belongs to another run. INVALID_ARGUMENT: there is no token, or a bad certificate. With a `desk`, the plane
  // is in this process: for several ranks in tests, or a single one, no gRPC is needed.
  static absl::StatusOr<std::unique_ptr<Client>> Join(const Options& options, std::shared_ptr<Desk> desk = nullptr,
                                                      std::unique_ptr<Server> server = nullptr);
  // At rank 0, which serves the plane.
  static absl::StatusOr<std::unique_ptr<Client>> Join(const Options& options, std::unique_ptr<Server> server);
  ~Client();  // leaves in order
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  int local_rank() const { return seat_.local_rank(); }  // among the processes of this host
  int local_size() const { return seat_.local_size(); }
  int member() const { return member_; }
  const Options& options() const { return options_; }

  // ---- Exchanges and values; blocking, from one thread at a time ----
  // Collective over the ranks, or over the members of the current generation if that is not the first, in the same
  // order on all. AllGather returns the bytes of all, by rank; Broadcast those of rank 0. DEADLINE_EXCEEDED or
  // UNAVAILABLE, naming the missing or lost process.
  absl::StatusOr<std::vector<std::string>> AllGather(std::string bytes);
  absl::StatusOr<std::string> Broadcast(std::string bytes);
  // Values last as long as the job. Get returns NOT_FOUND for a key that was never set; Wait blocks until it is.
  // RESOURCE_EXHAUSTED: a key of more than 4096 bytes, or 1 GiB in all.
  absl::Status Set(const std::string& key, std::string bytes);
  absl::StatusOr<std::string> Get(const std::string& key);
  absl::StatusOr<std::string> Wait(const std::string& key, double timeout_s);

  // ---- One run, from the process's main thread ----
  //
  // `run` is this process's, null if its rank only stands by; it must live until the verdict, or until the next Reform.
  // `on_failure` is called on the client's thread when the run is to end early, after `run` was told. The run is
  // elastic if there is an `on_broken`, the same on all: it is called on the client's thread when the generation is
  // broken, after `run` was told that a peer is lost. It is to abort communication in progress, and must not block.
  using OnBroken = std::function<void(const Broken&)>;
  void Begin(int world_size, double timeout_s, host::RunState* run, std::function<void()> on_failure,
             OnBroken on_broken = nullptr);
  Verdict AwaitVerdict();            // blocks
  void HandIn(std::string partial);  // call after a failure verdict
  // Waits for the verdict. Returns the results at the process that speaks: by rank; in an elastic run, by member. After
  // a failure, the others return when that process has ended (or takes too long).
  RunResult Conclude();
  bool speaks() const { return holds_plane() || (options_.rank == 1 && bereaved_); }  // rank 0; if it is lost, rank 1

  // ---- Generations of an elastic run, from the process's main or rank thread ----
  //
  // This member has left everything of its generation, which need not be broken, and asks for the next one. Blocks
  // until that is there: once all live members have asked, or `patience_s` after the first one asked without those who
  // have not. A newcomer waits for the first generation that it is in; then it calls Begin. FAILED_PRECONDITION: this
  // process is not in a generation that can be followed; else, why the run is over. With fewer than `min_members`
  // after `patience_s` it is, for all.
  absl::StatusOr<Generation> Reform(int min_members, double patience_s);
  // Then: observes the new generation's `run`, in place of the old one's.
  void Enter(host::RunState* run);
  // Blocks until this member's generation is known to be broken, or the run to be over. For a member that has told its
  // `run` why it cannot go on: until then, the others do not know.
  void AwaitBroken();
  // Processes that wait for the next generation. From any thread.
  int Newcomers() const { return newcomers_; }
  // Leaves the run for good, in order; the others' generation is broken. Also for a member whose function ends by an
  // exception. The verdict still comes, if this process waits for it. FAILED_PRECONDITION at rank 0, which holds the
  // plane.
  absl::Status Depart(std::string partial);
  // Ends the run for all, because nobody can go on, whoever is left (RunOver). Also while others ask for the next
  // generation.
  void EndRun(std::string why);

  // ---- From the rank's thread ----
  void Finish(std::string result);  // its function has succeeded and everything it issued is done
  void AddLog(std::shared_ptr<CallLog> log) { observer_.AddLog(std::move(log)); }

  // ---- From any thread, while a run lasts: a message to member `message.to()`, some 100 µs away ----
  void Relay(Relayed message);
  // Set the handlers of messages to this rank, called on the client's thread: of those about the last step, and of all
  // others. Set them before the run begins; may be null.
  void OnLastStep(std::function<void(const Relayed&)> hear);
  void OnRelayed(std::function<void(const Relayed&)> hear);

 private:
  using Time = std::chrono::steady_clock::time_point;
  // Extra time after a time-out, for the plane to say who is missing.
  static constexpr std::chrono::milliseconds kLastWord{3000};

  explicit Client(const Options& options, std::unique_ptr<Server> server, std::shared_ptr<Desk> desk);

  bool holds_plane() const { return options_.rank == 0 && !options_.newcomer; }

  // ---- Joining, on the main thread (client_join.cc) ----
  absl::Status Seek();
  absl::Status TryHost(const std::string& host);
  absl::Status Try(const Endpoint* endpoint, Time until);
  absl::Status Greet();
  absl::Status AwaitSeat();
  Link::Events EventsOf(uint64_t link);
  std::string Me() const;
  std::string Place() const;

  // ---- Exchanges and values (client_exchanges.cc) ----
  absl::StatusOr<FromHub> Exchange(std::string bytes, bool broadcast);
  absl::StatusOr<FromHub> Request(ToHub message, double timeout_s);
  // Sends `message`, and waits for `reply` until `deadline`; `late` is said then.
  absl::StatusOr<FromHub> Ask(ToHub message, FromHub::WhatCase reply, Time deadline, const std::string& late);
  absl::Status WhyEnded() const;  // with the lock held
  bool Has(FromHub::WhatCase reply) const { return replies_.contains(reply); }
  // Waits for the condition, the end of the plane or the deadline; false: none of them.
  template <class Condition>
  bool Await(std::unique_lock<std::mutex>& lock, Time deadline, const Condition& condition) {
    waits_ = true;
    const bool in_time =
        changed_.wait_until(lock, deadline, [&] { return condition() || Has(FromHub::kEnd) || hub_lost_; });
    waits_ = false;
    return in_time;
  }

  // ---- On any thread ----
  void Send(ToHub message);  // as of the run and the generation that this process is in

  // ---- On the client's thread ----
  void Tick();
  void MissTheHub();
  void Hear(const FromHub& message);
  void HearInRun(const FromHub& message);
  void Judge(const Verdict& verdict);
  void BreakUp(const Broken& broken);
  void LinkEnded(const absl::Status& why);
  void LoseHub(int rank, std::string message);
  void EndWithoutHub();

  const Options options_;
  const Time deadline_;             // for all to come
  std::unique_ptr<Server> server_;  // at rank 0
  std::shared_ptr<Desk> desk_;      // of this process; null: elsewhere
  std::unique_ptr<Link> link_;
  std::atomic<uint64_t> links_ = 0;  // attempts; events of earlier ones are ignored
  std::atomic<uint64_t> run_ = 0;    // of this process, for what it sends
  std::atomic<int> generation_ = 1;
  std::atomic<int> newcomers_ = 0;
  std::atomic<bool> bereaved_ = false;  // the plane was lost before it told how the run ends
  std::atomic<bool> waits_ = false;     // some thread waits for the plane
  std::string hub_;                     // the plane's process, once it has admitted this one
  int member_ = 0;
  Seat seat_;

  // The run; used by the client's thread only.
  bool link_ready_ = false;  // the plane has admitted this process
  RunningClock clock_;
  Time gave_sign_, heard_hub_;
  uint64_t begun_run_ = 0;
  int entered_generation_ = 1;
  double timeout_s_ = 0;
  std::function<void()> on_failure_;
  OnBroken on_broken_;
  bool broken_ = false, judged_ = false;
  std::vector<FromHub> early_;  // of a run or a generation that has yet to begin here
  std::function<void(const Relayed&)> on_last_step_, on_relayed_;
  Verdict how_hub_was_lost_;
  Observer observer_;

  // What other threads wait for.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<FromHub::WhatCase, FromHub> replies_;  // the last of each kind, apart from those about a run
  std::optional<absl::Status> link_ended_;
  std::atomic<bool> hub_lost_ = false;
  std::optional<int> torn_;  // the generation that a member was last lost from
  std::optional<Verdict> verdict_;
  uint64_t formed_run_ = 0;
  uint64_t exchanges_ = 0, requests_ = 0;
  int exchange_generation_ = 0;

  Loop loop_;
};

}  // namespace twofold::control
