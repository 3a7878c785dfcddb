#include "backends/control/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "core/base/status.h"

namespace twofold::control {

using asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds kAgain(50);  // after a failed accept

// gRPC would set these for sockets that it accepts itself. A host that is gone sends nothing, and leaves signs of life
// unacknowledged: then the connection breaks.
void Configure(tcp::socket& socket) {
  constexpr int kUnacknowledgedMs = 25000;
  asio::error_code ignored;
  socket.native_non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMs, sizeof kUnacknowledgedMs);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(const Endpoint& endpoint) {
  std::unique_ptr<Acceptor> made(new Acceptor());
  tcp::acceptor& acceptor = made->acceptor_;
  asio::error_code error;
  const tcp::endpoint at(asio::ip::make_address(endpoint.address), static_cast<unsigned short>(endpoint.port));
  acceptor.open(at.protocol(), error);
  if (!error && endpoint.v6 && endpoint.any) acceptor.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(at, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return made;
  if (error == asio::error::address_in_use) return Unavailable("another process listens there already");
  if (error == asio::error::access_denied) return absl::PermissionDeniedError("only root may use ports below 1024");
  return InvalidArgument("that is not an address of this host (", error.message(), ")");
}

void Acceptor::Start(int most_silent, std::function<void(int)> take) {
  most_silent_ = most_silent;
  take_ = std::move(take);
  Accept();
  thread_ = std::thread([this] { io_.run(); });
}

Acceptor::~Acceptor() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

void Acceptor::Accept() {
  acceptor_.async_accept([this](asio::error_code error, tcp::socket socket) {
    if (!error) AwaitFirstByte(std::move(socket));
    if (!error) return Accept();
    again_.expires_after(kAgain);  // for example: too many open files
    again_.async_wait([this](asio::error_code) { Accept(); });
  });
}

void Acceptor::AwaitFirstByte(tcp::socket accepted) {
  Configure(accepted);
  silent_.push_back(std::move(accepted));
  const auto socket = std::prev(silent_.end());
  socket->async_wait(tcp::socket::wait_read, [this, socket](asio::error_code error) {
    asio::error_code failed;
    if (!error) {
      const int handle = socket->release(failed);
      if (!failed) take_(handle);
    }
    silent_.erase(socket);
  });
  if (silent_.size() <= static_cast<size_t>(most_silent_)) return;
  asio::error_code ignored;
  silent_.front().close(ignored);  // its wait ends, and erases it
}

}  // namespace twofold::control
