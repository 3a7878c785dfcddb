// How the processes of a run meet, as rank 0's store sees it.
//
//   gathering   ranks come; ends when all have, or fails when one is lost, comes twice, contradicts, or does not come in time
//   met         every rank knows its place on its host; they exchange bytes, each exchange complete when all have given
//   failed      every rank was told why; whoever comes now is told, too
//
// A rank that leaves in order, once all have met, is missed by no one unless an exchange needs it. Losing one then fails the
// exchanges that wait for it. Whoever is refused alone (it came twice after all had met) does not disturb the others.
//
// Knows no sockets and no threads: it is called by one at a time, and speaks through the function that it is given.
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
  using Connection = uint64_t;  // of one process that has come, unlike every other's
  using Send = std::function<void(Connection, const FromStore&)>;

  struct Options {
    int size = 1;
    double timeout_s = 300;   // for all to come, and for all to give to an exchange
    std::string place;        // "node1:29500"
    std::string process;      // "process 4711 on node1", which serves
  };
  Meeting(Options options, Send send, Time now);

  // Not OK: this process alone is refused, and the meeting goes on.
  absl::Status Hear(Connection from, const FromMember& message, Time now);
  void Lose(Connection from);  // its call has ended; without Leave before it, its process is lost
  void RefusedStranger(const std::string& from);  // for the message, should somebody be missing
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
    int first = 0;  // who began it
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

  std::map<Connection, int> ranks_;  // of those who were let in
  const Options options_;
  const Send send_;
  State state_ = kGathering;
  Time deadline_;
  std::vector<Member> members_;  // by rank
  std::map<uint64_t, Exchange> exchanges_;
  std::vector<std::string> strangers_;
  FromStore end_;  // once failed
};

}  // namespace twofold::rendezvous
