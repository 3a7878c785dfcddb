// Ports for processes that a test starts.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace twofold::test {

// `count` consecutive ports of this host that the system gives to nobody else while this object lives. They are held by
// sockets that are bound to them but do not listen. A process that sets SO_REUSEADDR, as stores do, can still listen
// there; until then connections are refused.
class Ports {
 public:
  explicit Ports(int count = 1) {
    constexpr int kTries = 1000;  // the second port may be taken
    for (int i = 0; i < kTries && !Take(count); ++i) Release();
    if (held_.empty()) std::abort();
  }
  ~Ports() { Release(); }
  Ports(const Ports&) = delete;
  Ports& operator=(const Ports&) = delete;

  int first() const { return first_; }

 private:
  bool Take(int count) {
    for (int i = 0; i < count; ++i) {
      const int one = 1;
      held_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      setsockopt(held_.back(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<uint16_t>(i == 0 ? 0 : first_ + i));
      if (first_ + i > 65535 || bind(held_.back(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        return false;
      socklen_t size = sizeof address;
      if (i == 0 && getsockname(held_.back(), reinterpret_cast<sockaddr*>(&address), &size) == 0)
        first_ = ntohs(address.sin_port);
    }
    return true;
  }
  void Release() {
    for (const int socket : held_) close(socket);
    held_.clear();
    first_ = 0;
  }

  std::vector<int> held_;
  int first_ = 0;
};

}  // namespace twofold::test
