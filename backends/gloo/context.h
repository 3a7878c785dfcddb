// A Gloo context of a group: TCP connections between each two of its ranks.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/device.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace twofold::gloo {

using ContextPtr = std::shared_ptr<::gloo::Context>;
using TransportPtr = std::shared_ptr<::gloo::transport::Device>;

// Gives every rank of the new group the bytes of all of them, indexed by rank. Called once; may throw.
using Exchange = std::function<std::vector<std::string>(std::string bytes)>;

// Collective over the group's ranks. Throws ::gloo::Exception if a rank cannot be reached. Calls on the context never
// time out: whether somebody hangs is for the watch to say.
ContextPtr Connect(int rank, int size, const Exchange& exchange, TransportPtr transport);

// The TCP transport of this process, which listens at one of its addresses:
//   several hosts   that of the network interface GLOO_SOCKET_IFNAME; else the one that routes to rank 0's host
//   one host        the loopback address
// `master`: rank 0's host, as others reach it; "" if unknown. Throws std::runtime_error if other hosts could not reach
// the address.
TransportPtr MakeTransport(bool one_host, const std::string& master);

}  // namespace twofold::gloo
