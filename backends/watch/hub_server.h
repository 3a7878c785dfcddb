// The hub in rank 0's process, with the other processes' connections.
//
// It listens until all have come. A failed accept does not stop it: if file descriptors run out, it tries again soon. A
// connection that does not begin with the run's token and a rank that is still awaited is rejected. Of connections that
// send nothing it keeps as many as there are awaited processes, plus `kMostStrangers`; one more, and the oldest is
// closed.
#pragma once

#include <asio.hpp>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "backends/watch/hub.h"
#include "backends/watch/link.h"
#include "backends/watch/running_clock.h"
#include "core/base/duration.h"

namespace twofold::watch {

class HubServer {
 public:
  static constexpr int kMostStrangers = 64;
  struct Options {
    int processes = 1;
    double least_silence_s = 0;  // passed to Hub
    std::string process;         // this process: "process 4711 on node3"
    std::string token;
  };
  // `acceptor` is listening. `hear` handles the hub's messages to this process's own rank. `hear` and `clock` belong to
  // `io`'s thread; all functions below are called on that thread unless stated otherwise.
  HubServer(const Options& options, asio::ip::tcp::acceptor acceptor, const RunningClock& clock,
            std::function<void(const control::FromHub&)> hear);

  Hub& hub() { return hub_; }
  void GiveSignsOfLife();  // to all processes
  void Close();

  // Call from another thread. False: not all have come in time.
  bool AwaitAll(double seconds) {
    return all_have_come_.get_future().wait_for(DurationOf(seconds)) == std::future_status::ready;
  }
  // Call once `io` has stopped.
  int have_come() const { return have_come_; }
  const std::string& why_deaf() const { return why_deaf_; }  // why the last accept failed; "" if it succeeded

 private:
  void Accept();
  void AcceptLater();
  void Welcome(std::shared_ptr<Link> link);
  void Hear(const std::shared_ptr<Link>& link, int& rank, const std::string& bytes);
  void HearMember(const std::shared_ptr<Link>& link, int rank, const control::ToHub& message);
  int awaited() const { return options_.processes - 1 - have_come_; }
  bool Belongs(const control::ToHub& message) const;
  void Send(int rank, const control::FromHub& message);

  const Options options_;
  asio::ip::tcp::acceptor acceptor_;
  const RunningClock& clock_;
  const std::function<void(const control::FromHub&)> hear_;
  Hub hub_;
  std::vector<std::shared_ptr<Link>> links_;    // by rank
  std::list<std::shared_ptr<Link>> strangers_;  // not yet identified, oldest first
  asio::steady_timer again_;
  int have_come_ = 0;
  std::string why_deaf_;
  std::promise<void> all_have_come_;
};

}  // namespace twofold::watch
