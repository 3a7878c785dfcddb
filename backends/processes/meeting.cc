#include "backends/processes/meeting.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/control/address.h"
#include "core/base/machine.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::processes {
namespace {

// What rank 0 broadcasts, so that the others find the plane: "+PORT TOKEN ADDRESS,ADDRESS", or "-" and why there is
// none. Without that reason the others would wait for a rank that has given up.
std::string CardOf(const absl::StatusOr<std::unique_ptr<control::Server>>& server, const std::string& token,
                   const std::vector<std::string>& addresses) {
  if (!server.ok()) return StrCat("-", std::string(server.status().message()));
  return StrCat("+", (*server)->port(), " ", token, " ", absl::StrJoin(addresses, ","));
}

absl::Status ReadCard(const std::string& card, control::Client::Options& options) {
  if (card.starts_with("-")) return FailedPrecondition(card.substr(1));
  const std::vector<std::string> parts = absl::StrSplit(card, absl::MaxSplits(' ', 2));
  if (parts.size() != 3 || !parts[0].starts_with("+") || !absl::SimpleAtoi(parts[0].substr(1), &options.port))
    return Internal("rank 0 did not send its address in the expected form: \"", card, "\"");
  options.token = parts[1];
  options.hosts = absl::StrSplit(parts[2], ',');
  return absl::OkStatus();
}

// The addresses under which others can reach a plane that listens at `bind`.
std::vector<std::string> AddressesOf(const std::string& bind, const ByBroadcast& by) {
  const bool everywhere = bind == "::" || bind == "0.0.0.0";
  if (by.one_host) return {everywhere ? "127.0.0.1" : bind};
  std::vector<std::string> addresses = {everywhere ? HostName() : bind};
  if (!by.address.empty() && by.address != addresses[0]) addresses.insert(addresses.begin(), by.address);
  return addresses;
}

}  // namespace

absl::StatusOr<std::unique_ptr<control::Client>> Alone() {
  control::Plane::Options plane = {.size = 1, .place = "this process", .process = control::ThisProcessText()};
  return control::Client::Join({.described = "none (a single process)"},
                               std::make_shared<control::Desk>(std::move(plane)));
}

absl::StatusOr<control::Tls> TlsOf(const spec::Rendezvous& spec) {
  if (!spec.has_tls()) return control::Tls();
  return control::ReadTls(spec.tls().certificate(), spec.tls().key(), spec.tls().authority());
}

absl::StatusOr<std::unique_ptr<control::Client>> Meet(const ByBroadcast& by, const spec::Rendezvous& spec) try {
  const absl::StatusOr<control::Tls> tls = TlsOf(spec);
  control::Client::Options options = {.rank = by.rank,
                                      .size = by.size,
                                      .timeout_s = spec.timeout_s(),
                                      .tls = tls.value_or(control::Tls()),
                                      .address = by.address,
                                      .described = by.described};
  std::string card;
  if (by.rank != 0) {
    by.broadcast(card);
    if (const absl::Status read = ReadCard(card, options); !read.ok()) return read;
    if (!tls.ok()) return tls.status();
    return control::Client::Join(options);
  }
  const std::string token = control::MakeToken();
  auto server = !tls.ok() ? absl::StatusOr<std::unique_ptr<control::Server>>(tls.status())
                          : control::Server::Listen({.size = by.size,
                                                     .bind = spec.has_bind() ? spec.bind()
                                                             : by.one_host   ? "127.0.0.1"
                                                                             : "",
                                                     .process = control::ThisProcessText(),
                                                     .timeout_s = spec.timeout_s(),
                                                     .token = token,
                                                     .tls = *tls});
  const std::vector<std::string> addresses =
      server.ok() ? AddressesOf((*server)->bind(), by) : std::vector<std::string>();
  card = CardOf(server, token, addresses);
  by.broadcast(card);
  if (!server.ok()) return server.status();
  options.hosts = addresses;
  options.port = (*server)->port();
  return control::Client::Join(options, *std::move(server));
} catch (const std::runtime_error& e) {
  return Unavailable(e.what());
}

}  // namespace twofold::processes
