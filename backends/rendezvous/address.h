// Names of hosts, addresses and ports.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace twofold::rendezvous {

struct Endpoint {
  std::string address;  // in numbers
  int port = 0;
  bool v6 = false, loopback = false, any = false;
  std::string Target() const;  // as gRPC wants it: "ipv4:10.0.0.1:29500", "ipv6:[fd00::2]:29500"
};

// Where `host` can be reached, by this host's resolver. NOT_FOUND with the resolver's words.
absl::StatusOr<std::vector<Endpoint>> Resolve(const std::string& host, int port);

// Whether this process may listen there: OK, INVALID_ARGUMENT (not of this host), UNAVAILABLE (taken) or PERMISSION_DENIED.
// `port` 0 becomes one that is free.
absl::Status MayListen(Endpoint& endpoint);

// Whether who knows `token` alone may be let in there. An empty one, which everybody knows, does between processes of one host.
bool TokenSuffices(const std::string& token, const Endpoint& endpoint);
// The end of a message that says where, and what would be right.
std::string WhyNoToken();

// Why nothing answers there, as a plain connection finds out: "connection refused", or "something listens there that is no store".
std::string WhyNoAnswer(const Endpoint& endpoint);

// "node1:29500", "[fd00::2]:29500"
std::string PlaceText(const std::string& host, int port);

}  // namespace twofold::rendezvous
