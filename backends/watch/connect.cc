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

constexpr std::chrono::seconds kAttempt(10);  // to connect to one address

// A host that drops what comes to it would have a plain connect wait for minutes.
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

}  // namespace

tcp::acceptor ListenEverywhere(asio::io_context& io) {
  tcp::acceptor acceptor(io);
  asio::error_code error;
  acceptor.open(tcp::v6(), error);
  if (!error) acceptor.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor.bind({tcp::v6(), 0}, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  return error ? tcp::acceptor(io, {tcp::v4(), 0}) : std::move(acceptor);
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
      StrAppend(&why, why.empty() ? "" : "; ", address, " (", entry.endpoint().address().to_string(), "): ", error.message());
    }
  }
  throw std::runtime_error(why);
}

}  // namespace twofold::watch
