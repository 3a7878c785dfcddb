#include "backends/rendezvous/address.h"

#include <asio.hpp>

#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::rendezvous {
namespace {

using asio::ip::tcp;

tcp::endpoint AsioEndpoint(const Endpoint& e) {
  return {asio::ip::make_address(e.address), static_cast<unsigned short>(e.port)};
}

}  // namespace

std::string PlaceText(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? StrCat(host, ":", port) : StrCat("[", host, "]:", port);
}

std::string Endpoint::Target() const { return StrCat(v6 ? "ipv6:" : "ipv4:", PlaceText(address, port)); }

absl::StatusOr<std::vector<Endpoint>> Resolve(const std::string& host, int port) {
  asio::io_context io;
  asio::error_code error;
  std::vector<Endpoint> endpoints;
  for (const auto& entry :
       tcp::resolver(io).resolve(host, std::to_string(port), tcp::resolver::numeric_service, error)) {
    const asio::ip::address address = entry.endpoint().address();
    endpoints.push_back({address.to_string(), port, address.is_v6(), address.is_loopback(), address.is_unspecified()});
  }
  if (error || endpoints.empty()) return NotFound(host, " cannot be resolved: ", error.message());
  return endpoints;
}

absl::Status MayListen(Endpoint& endpoint) {
  asio::io_context io;
  tcp::acceptor acceptor(io);
  asio::error_code error;
  const tcp::endpoint at = AsioEndpoint(endpoint);
  acceptor.open(at.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(at, error);
  if (!error) acceptor.listen(1, error);
  if (!error && endpoint.port == 0) endpoint.port = acceptor.local_endpoint().port();
  if (!error) return absl::OkStatus();
  if (error == asio::error::address_in_use) return Unavailable("another process listens there already");
  if (error == asio::error::access_denied) return absl::PermissionDeniedError("only root may use ports below 1024");
  return InvalidArgument("that is not an address of this host (", error.message(), ")");
}

bool TokenSuffices(const std::string& token, const Endpoint& endpoint) { return !token.empty() || endpoint.loopback; }

std::string WhyNoToken() {
  return ", which other hosts can reach, but this job has no token, so any process could join; set TWOFOLD_JOB_TOKEN "
         "to the same text, which others cannot guess, for all ranks (Slurm, torchrun and `twofold launch` on one host "
         "set it themselves)";
}

std::string WhyNoAnswer(const Endpoint& endpoint) {
  asio::io_context io;
  tcp::socket socket(io);
  asio::error_code error = asio::error::timed_out;
  socket.async_connect(AsioEndpoint(endpoint), [&error](asio::error_code result) { error = result; });
  io.run_for(std::chrono::seconds(2));
  return error ? error.message() : "a program that is not a rendezvous store listens there";
}

}  // namespace twofold::rendezvous
