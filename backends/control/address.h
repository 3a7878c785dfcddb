// Host names, addresses and ports.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace twofold::control {

struct Endpoint {
  std::string address;  // numeric
  int port = 0;
  bool v6 = false, loopback = false, any = false;
  std::string Target() const;  // in gRPC's format
};

// The addresses of `host`, from this host's resolver. NOT_FOUND with the resolver's message.
absl::StatusOr<std::vector<Endpoint>> Resolve(const std::string& host, int port);

// Whether `token` is enough to admit a process at `endpoint`. An empty token, which everybody knows, is enough only
// between processes of one host.
bool TokenSuffices(const std::string& token, const Endpoint& endpoint);
// The end of an error message: the address needs a token, and how to set one.
std::string WhyNoToken();
// A token that nobody can guess, of digits and letters.
std::string MakeToken();

// Why nothing answers there, found out by a plain TCP connection: "connection refused", or "something listens there
// that is no store".
std::string WhyNoAnswer(const Endpoint& endpoint);

// "node1:29500", "[fd00::2]:29500"
std::string PlaceText(const std::string& host, int port);

}  // namespace twofold::control
