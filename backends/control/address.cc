#include "backends/control/address.h"

#include <asio.hpp>
#include <random>

#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::control {
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

bool TokenSuffices(const std::string& token, const Endpoint& endpoint) { return !token.empty() || endpoint.loopback; }

std::string WhyNoToken() {
  return ", which other hosts can reach, but this job has no token, so any process could join; set TWOFOLD_JOB_TOKEN "
         "to the same text, which others cannot guess, for all ranks (Slurm, torchrun and `twofold launch` on one host "
         "set it themselves)";
}

std::string MakeToken() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) StrAppend(&token, absl::StrFormat("%08x", random()));
  return token;
}

std::string WhyNoAnswer(const Endpoint& endpoint) {
  asio::io_context io;
  tcp::socket socket(io);
  asio::error_code error = asio::error::timed_out;
  socket.async_connect(AsioEndpoint(endpoint), [&error](asio::error_code result) { error = result; });
  io.run_for(std::chrono::seconds(2));
  return error ? error.message() : "a program that is not a rendezvous store listens there";
}

}  // namespace twofold::control
