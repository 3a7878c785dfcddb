// Clients of one job's processes, all in the test's own, over a served control plane.
#pragma once

#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "backends/control/client.h"

namespace twofold::control {

// Clients as of `size` processes of one job; rank 0's holds the server.
class Job {
 public:
  explicit Job(int size, Tls tls = {}, double least_silence_s = 15)
      : tls_(std::move(tls)), silence_s_(least_silence_s), size_(size) {
    auto server = *Server::Listen({.size = size,
                                   .bind = "127.0.0.1",
                                   .process = "process 100 on node0",
                                   .timeout_s = 60,
                                   .least_silence_s = silence_s_,
                                   .token = "ours",
                                   .tls = tls_});
    port_ = server->port();
    std::vector<std::future<std::unique_ptr<Client>>> joining;
    for (int r = 1; r < size; ++r)
      joining.push_back(std::async(std::launch::async, [this, r] { return *Client::Join(Options(r)); }));
    clients_.push_back(*Client::Join(Options(0), std::move(server)));
    for (auto& each : joining) clients_.push_back(each.get());
  }
  Client::Options Options(int rank) const {
    return {.rank = rank,
            .size = size_,
            .hosts = {"127.0.0.1"},
            .port = port_,
            .timeout_s = 60,
            .token = "ours",
            .tls = tls_,
            .least_silence_s = silence_s_};
  }
  std::unique_ptr<Client>& of(int rank) { return clients_[static_cast<size_t>(rank)]; }
  std::vector<std::unique_ptr<Client>>& clients() { return clients_; }
  int port() const { return port_; }

 private:
  const Tls tls_;
  const double silence_s_;
  const int size_;
  int port_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace twofold::control
