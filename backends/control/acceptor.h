// Listens for connections, and hands over those that say something.
//
// The listener of gRPC 1.51 stops for good if the process runs out of files once: strangers that open as many
// connections as the hard limit allows, and say nothing, keep all later ranks out. This one tries again soon. Of
// connections that have sent nothing it keeps `most_silent`; one more, and the oldest is closed. So a flood of
// strangers takes no more files than were allowed for.
#pragma once

#include <asio.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "backends/control/address.h"

namespace twofold::control {

class Acceptor {
 public:
  // Listens at `endpoint`; port 0: at a free one. An unspecified IPv6 address stands for those of IPv4, too.
  // INVALID_ARGUMENT (not an address of this host), UNAVAILABLE (in use) or PERMISSION_DENIED.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const Endpoint& endpoint);
  ~Acceptor();

  int port() const { return acceptor_.local_endpoint().port(); }
  // `take` gets the sockets, which it owns then. It is called on the acceptor's thread.
  void Start(int most_silent, std::function<void(int socket)> take);

 private:
  explicit Acceptor() : acceptor_(io_), again_(io_) {}
  void Accept();
  void AwaitFirstByte(asio::ip::tcp::socket socket);

  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer again_;
  std::list<asio::ip::tcp::socket> silent_;  // oldest first
  int most_silent_ = 0;
  std::function<void(int socket)> take_;
  std::thread thread_;
};

}  // namespace twofold::control
