// Sockets between a watch's hub and the others, on hosts of any kind.
#pragma once

#include <asio.hpp>
#include <string>
#include <vector>

namespace twofold::watch {

// At any free port of `host`, an address of this host in numbers or a name of it; "": at every address, IPv6's too where there is that.
// Throws std::runtime_error.
asio::ip::tcp::acceptor ListenAt(const std::string& host, asio::io_context& io);

// Of `addresses`, the first that lets itself be connected to. Before a thread runs `io`. Throws std::runtime_error saying why none does.
asio::ip::tcp::socket ConnectToAny(const std::vector<std::string>& addresses, const std::string& port, asio::io_context& io);

}  // namespace twofold::watch
