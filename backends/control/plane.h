// The control plane of a job, in the process of rank 0: how processes meet, exchange bytes, are missed when they are
// gone, and learn how a run ends (hub.h) and who its members are (generations.h).
//
//   gathering   ranks arrive; ends when all have; fails if one is lost, comes twice, contradicts the others or is late
//   met         every rank knows its place on its host; ranks exchange bytes and values, and runs begin and end
//   failed      every rank was told why, and so is any rank that comes later
//
// An exchange among the ranks that met fails for good if one of them is lost, or does not take part in time. One among
// the members of a later generation fails alone. A process that is refused alone (because its rank came again after all
// had met) does not disturb the others. Losing rank 0's process loses the plane: the others' runs end (client.h).
//
// Uses no sockets, no threads and no clock. It is called by one thread at a time and sends through callbacks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "backends/control/control.pb.h"
#include "backends/control/hub.h"
#include "backends/control/key_values.h"

namespace twofold::control {

inline constexpr int kVersion = 2;  // of the protocol
// Every process gives this many signs of life within the silence that is allowed.
inline constexpr double kSignsInSilence = 5;

// "process 4711 on node3"
std::string ProcessText(const Hello& hello);

class Plane {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Connection = uint64_t;  // of one process that has come; unique
  using Send = std::function<void(Connection, const FromHub&)>;
  using HangUp = std::function<void(Connection, const absl::Status& why)>;  // once what was sent has gone

  struct Options {
    int size = 1;
    double timeout_s = 300;       // for all to come; for all to give to an exchange
    std::string place;            // "node1:29500"
    std::string process;          // "process 4711 on node1", which runs the plane
    double least_silence_s = 15;  // before a process is missed that others wait for
  };
  Plane(Options options, Send send, HangUp hang_up, Time now);

  // Not OK: this process alone is refused, and the others go on.
  absl::Status Hear(Connection from, const ToHub& message, Time now);
  // Its call has ended; if there was no Leave before, its process is lost.
  void Lose(Connection from, Time now);
  void RefusedStranger(const std::string& from);  // mentioned in the error if somebody is missing
  void Tick(Time now);

 private:
  enum State { kGathering, kMet, kFailed };
  struct Member {
    enum { kAwaited, kHere, kLeft, kLost } state = kAwaited;
    Connection connection = 0;
    Hello hello;
    std::string how;  // it was lost
    Time heard;
    std::string Text() const;  // "rank 2 (process 4711 on node3)"
  };
  struct Exchange {
    Time deadline;
    bool broadcast = false;
    int first = 0;             // the member that began it
    std::vector<int> members;  // that take part
    std::map<int, std::string> given;
  };
  using ExchangeKey = std::pair<int, uint64_t>;  // generation, number

  // ---- Meeting (plane.cc) ----
  absl::Status Greet(Connection from, const Hello& hello, Time now);
  std::string Contradiction(Connection from, const Hello& hello) const;
  void Seat();
  void LoseMember(int number, const std::string& how, Time now);
  void HandleLeave(int number, Time now);
  void MissTheSilent(Time now);
  void MissTheLate(Time now);
  void Fail(absl::StatusCode code, const std::string& message);
  void TellAll(const FromHub& message);
  void TellResults();
  std::string WhoHasCome() const;
  bool IsSilent(int number, Time now) const;
  Member& At(int number) { return members_[static_cast<size_t>(number)]; }
  const Member& At(int number) const { return members_[static_cast<size_t>(number)]; }
  void SendTo(int number, const FromHub& message);
  void HangUpOn(int number, const absl::Status& why);

  // ---- Exchanges (plane_exchanges.cc) ----
  void Take(int number, const Give& give, Time now);
  void CheckExchanges(Time now);
  absl::Status Trouble(const ExchangeKey& key, const Exchange& exchange, Time now);

  const Options options_;
  const Send send_;
  const HangUp hang_up_;
  State state_ = kGathering;
  Time deadline_, gave_signs_;
  std::map<Connection, int> numbers_;  // of admitted processes
  std::vector<Member> members_;        // by number: ranks, then newcomers
  std::map<ExchangeKey, Exchange> exchanges_;
  std::vector<std::string> strangers_;
  FromHub end_;  // set once failed
  KeyValues values_;
  Hub hub_;
  bool told_results_ = true;
};

}  // namespace twofold::control
