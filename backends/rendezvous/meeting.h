// How the processes of a run meet, as rank 0's store sees it.
//
//   gathering   ranks arrive; ends when all have; fails if one is lost, comes twice, contradicts the others or is late
//   met         every rank knows its place on its host; ranks exchange bytes; an exchange ends when all have given
//   failed      every rank was told why, and so is any rank that comes later
//
// Once all have met, a rank that leaves in order matters only if an exchange needs it. Losing one then fails the
// exchanges that wait for it. A process that is refused alone (because its rank came again after all had met) does not
// disturb the others.
//
// Uses no sockets and no threads. It is called by one thread at a time and sends through a callback.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "backends/rendezvous/rendezvous.pb.h"

namespace twofold::rendezvous {

inline constexpr int kVersion = 1;

// "process 4711 on node3"
std::string ProcessText(const Hello& hello);

class Meeting {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Connection = uint64_t;  // of one process that has come; unique
  using Send = std::function<void(Connection, const FromStore&)>;

  struct Options {
    int size = 1;
    double timeout_s = 300;  // for all to come; for all to give to an exchange
    std::string place;       // "node1:29500"
    std::string process;     // "process 4711 on node1", which runs the store
  };
  Meeting(Options options, Send send, Time now);

  // Not OK: this process alone is refused, and the meeting goes on.
  absl::Status Hear(Connection from, const FromMember& message, Time now);
  void Lose(Connection from);  // its call has ended; if there was no Leave before, its process is lost
  void RefusedStranger(const std::string& from);  // mentioned in the error if somebody is missing
  void Tick(Time now);

 private:
  enum State { kGathering, kMet, kFailed };
  struct Member {
    enum { kAwaited, kHere, kLeft, kLost } state = kAwaited;
    Connection connection = 0;
    Hello hello;
    std::string Text() const;  // "rank 2 (process 4711 on node3)"
  };
  struct Exchange {
    Time deadline;
    bool broadcast = false;
    int first = 0;  // the rank that began it
    std::map<int, std::string> given;
  };

  absl::Status Greet(Connection from, const Hello& hello, Time now);
  std::string Contradiction(Connection from, const Hello& hello) const;
  void Seat();
  void Take(int rank, const Give& give, Time now);
  void CheckExchanges(Time now);
  void Fail(absl::StatusCode code, const std::string& message);
  void Tell(const FromStore& message);
  std::string WhoHasCome() const;

  std::map<Connection, int> ranks_;  // of admitted processes
  const Options options_;
  const Send send_;
  State state_ = kGathering;
  Time deadline_;
  std::vector<Member> members_;  // by rank
  std::map<uint64_t, Exchange> exchanges_;
  std::vector<std::string> strangers_;
  FromStore end_;  // set once failed
};

}  // namespace twofold::rendezvous
