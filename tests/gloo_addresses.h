// What a member of a Gloo group tells the others that does not listen where it says.
#pragma once

#include <arpa/inet.h>
#include <gloo/transport/tcp/address.h>
#include <netinet/in.h>

#include <string>
#include <vector>

namespace twofold::test {

// By Gloo's rule a rank connects to a port below its own, and waits for a connection from one above.
inline constexpr int kPortBelow = 1, kPortAbove = 65535;

// Addresses at `port`, one for each of `others`.
inline std::string GlooAddressesAt(int port, int others) {
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::vector<char> one = ::gloo::transport::tcp::Address(reinterpret_cast<sockaddr*>(&at), sizeof at).bytes();
  std::string all;
  for (int i = 0; i < others; ++i) all.append(one.begin(), one.end());
  return all;
}

}  // namespace twofold::test
