// Sockets between a watch's hub and the other processes, on hosts of any kind.
#pragma once

#include <asio.hpp>
#include <string>
#include <vector>

namespace twofold::watch {

// Listens at any free port of `host`, a numeric address or a name of this host; "": at every address, including IPv6 if
// available. Throws std::runtime_error.
asio::ip::tcp::acceptor ListenAt(const std::string& host, asio::io_context& io);

// Connects to the first of `addresses` that accepts. Call before a thread runs `io`. Throws std::runtime_error saying
// why none accepts.
asio::ip::tcp::socket ConnectToAny(const std::vector<std::string>& addresses, const std::string& port,
                                   asio::io_context& io);

}  // namespace twofold::watch
