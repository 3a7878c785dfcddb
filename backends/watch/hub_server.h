// The hub at the process of rank 0, with the connections of the other processes to it.
//
// It listens until all have come. Who does not begin with the run's token and a rank that is still awaited is turned away.
#pragma once

#include <asio.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/watch/hub.h"
#include "backends/watch/link.h"
#include "backends/watch/running_clock.h"

namespace twofold::watch {

class HubServer {
 public:
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
  bool AwaitAll(double seconds) { return all_have_come_.get_future().wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready; }
  // Once `io` has stopped.
  int have_come() const { return have_come_; }
  const std::string& why_deaf() const { return why_deaf_; }  // why nobody can connect any more; "": somebody can

 private:
  void Accept();
  void Welcome(std::shared_ptr<Link> link);
  void Hear(const std::shared_ptr<Link>& link, int& rank, const std::string& bytes);
  bool Belongs(const control::ToHub& message) const;
  void Send(int rank, const control::FromHub& message);

  const Options options_;
  asio::ip::tcp::acceptor acceptor_;
  const RunningClock& clock_;
  const std::function<void(const control::FromHub&)> hear_;
  Hub hub_;
  std::vector<std::shared_ptr<Link>> links_;    // by rank
  std::set<std::shared_ptr<Link>> strangers_;   // who have yet to say who they are
  int have_come_ = 0;
  std::string why_deaf_;
  std::promise<void> all_have_come_;
};

}  // namespace twofold::watch
