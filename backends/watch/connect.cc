#include "backends/watch/connect.h"

#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/base/strings.h"

namespace twofold::watch {

using asio::ip::tcp;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAttempt(10);  // time to connect to one address

// Has its own time-out: if a host drops packets, a plain connect waits for minutes.
asio::error_code ConnectTo(const tcp::endpoint& endpoint, tcp::socket& socket, asio::io_context& io) {
  std::optional<asio::error_code> result;
  socket.async_connect(endpoint, [&result](asio::error_code error) { result = error; });
  const auto deadline = Clock::now() + kAttempt;
  while (!result && Clock::now() < deadline) io.run_one_until(deadline);
  if (result && !*result) return {};
  const asio::error_code why = result.value_or(asio::error::timed_out);
  asio::error_code ignored;
  socket.close(ignored);
  while (!result) io.run_one();
  return why;
}

asio::error_code Listen(const tcp::endpoint& at, tcp::acceptor& acceptor) {
  asio::error_code error, ignored;
  acceptor.close(ignored);
  acceptor.open(at.protocol(), error);
  if (!error && at.address().is_v6() && at.address().is_unspecified())
    acceptor.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor.bind(at, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  return error;
}

}  // namespace

tcp::acceptor ListenAt(const std::string& host, asio::io_context& io) {
  asio::error_code error;
  tcp::acceptor acceptor(io);
  if (host.empty()) return Listen({tcp::v6(), 0}, acceptor) ? tcp::acceptor(io, {tcp::v4(), 0}) : std::move(acceptor);
  const auto endpoints = tcp::resolver(io).resolve(host, "0", tcp::resolver::numeric_service, error);
  for (const auto& entry : endpoints) {
    error = Listen(entry.endpoint(), acceptor);
    if (!error) return acceptor;
  }
  throw std::runtime_error(StrCat("cannot listen at ", host, ": ", error.message(),
                                  "; set fabric.rendezvous.bind to an address of this host (0.0.0.0 for all)"));
}

tcp::socket ConnectToAny(const std::vector<std::string>& addresses, const std::string& port, asio::io_context& io) {
  std::string why;
  for (const std::string& address : addresses) {
    asio::error_code error;
    const auto endpoints = tcp::resolver(io).resolve(address, port, tcp::resolver::numeric_service, error);
    if (error) StrAppend(&why, why.empty() ? "" : "; ", address, ": ", error.message());
    for (const auto& entry : endpoints) {
      tcp::socket socket(io);
      error = ConnectTo(entry.endpoint(), socket, io);
      if (!error) return socket;
      StrAppend(&why, why.empty() ? "" : "; ", address, " (", entry.endpoint().address().to_string(),
                "): ", error.message());
    }
  }
  throw std::runtime_error(why);
}

}  // namespace twofold::watch
