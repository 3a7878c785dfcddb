// The hub at the process of rank 0, with the connections of the other processes to it.
//
// It listens until all have come, whatever an attempt to accept one comes to: where files run out, it tries again in a moment. Who does not
// begin with the run's token and a rank that is still awaited is turned away. Of those who connect and say nothing it keeps as many as are
// awaited, and `kMostStrangers`: one more, and the first has to go.
#pragma once

#include <asio.hpp>
#include <chrono>
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
    double least_silence_s = 0;  // Hub's
    std::string process;         // this one, "process 4711 on node3"
    std::string token;
  };
  // `acceptor` listens. `hear` is what this process's own rank does with what the hub says. Both, and `clock`, belong to `io`'s thread,
  // on which everything below happens, but for what says otherwise.
  HubServer(const Options& options, asio::ip::tcp::acceptor acceptor, const RunningClock& clock, std::function<void(const control::FromHub&)> hear);

  Hub& hub() { return hub_; }
  void GiveSignsOfLife();  // to all
  void Close();

  // From another thread. False: not all have come in time.
  bool AwaitAll(double seconds) { return all_have_come_.get_future().wait_for(DurationOf(seconds)) == std::future_status::ready; }
  // Once `io` has stopped.
  int have_come() const { return have_come_; }
  const std::string& why_deaf() const { return why_deaf_; }  // why nobody could connect when last tried; "": somebody could

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
  std::list<std::shared_ptr<Link>> strangers_;  // who have yet to say who they are, the first to come first
  asio::steady_timer again_;
  int have_come_ = 0;
  std::string why_deaf_;
  std::promise<void> all_have_come_;
};

}  // namespace twofold::watch
