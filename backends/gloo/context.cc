#include "backends/gloo/context.h"

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/strings.h"

namespace twofold::gloo {
namespace {

constexpr std::chrono::hours kNever(24 * 365);
constexpr int kTimesTimeout = 5;  // Gloo waits so many times a context's time-out for a connection

std::chrono::milliseconds TimeoutToConnect(double timeout_s) {
  const std::chrono::duration<double> each(std::min(timeout_s, 1e6) / kTimesTimeout);
  return std::max(std::chrono::milliseconds(1), std::chrono::duration_cast<std::chrono::milliseconds>(each));
}

// Gloo's own way to connect needs a store that everybody reads again and again. Here one exchange is enough.
class Connected : public ::gloo::Context {
 public:
  Connected(int rank, int size) : ::gloo::Context(rank, size) { setTimeout(kNever); }
  // Each rank opens a socket for each other rank.
  void Open(TransportPtr transport, std::shared_ptr<Abortion> abortion, double timeout_s) {
    const std::shared_ptr<::gloo::transport::Context> pairs = transport->createContext(rank, size);
    pairs->setTimeout(TimeoutToConnect(timeout_s));
    for (int r = 0; r < size; ++r) {
      if (r != rank) pairs->createPair(r)->setLocalRank(0);  // unused by TCP
    }
    pairs->setTimeout(kNever);
    transportContext_ = Abortable(pairs, abortion);
    abortion_ = std::move(abortion);
    device_ = std::move(transport);
  }
  // Each rank tells the others the addresses.
  void ConnectAll(const Exchange& exchange) {
    const std::shared_ptr<::gloo::transport::Context>& pairs = transportContext_;
    std::string addresses;  // of equal size, by rank; this rank's own is missing
    size_t each = 0;
    for (int r = 0; r < size; ++r) {
      if (r == rank) continue;
      const std::vector<char> address = pairs->getPair(r)->address().bytes();
      addresses.append(address.begin(), address.end());
      each = address.size();
    }
    const std::vector<std::string> all = exchange(std::move(addresses));
    for (int r = 0; r < size; ++r) {
      if (r == rank) continue;
      const size_t place = static_cast<size_t>(rank < r ? rank : rank - 1) * each;
      const std::string& its = all.at(static_cast<size_t>(r));
      if (its.size() < place + each)
        throw std::runtime_error(StrCat("rank ", r, " of the group did not give its addresses"));
      abortion_->Connect(*pairs->getPair(r),
                         {its.begin() + static_cast<int64_t>(place), its.begin() + static_cast<int64_t>(place + each)});
    }
  }

 private:
  std::shared_ptr<Abortion> abortion_;
};

// This host's numeric address on the way to `host`; "" if there is none. Sends nothing.
std::string AddressTowards(const std::string& host) {
  const addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
  addrinfo* found = nullptr;
  if (host.empty() || getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  for (const addrinfo* to = found; to != nullptr; to = to->ai_next) {
    const int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    const absl::Cleanup close_fd = [fd] { close(fd); };
    sockaddr_storage own = {};
    socklen_t size = sizeof own;
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    std::array<char, NI_MAXHOST> text = {};
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0 && getsockname(fd, address, &size) == 0 &&
        getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0) {
      return text.data();
    }
  }
  return "";
}

std::string HostName() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

ContextPtr Connect(int rank, int size, const Exchange& exchange, TransportPtr transport,
                   std::shared_ptr<Abortion> abortion, double timeout_s) {
  auto context = std::make_shared<Connected>(rank, size);
  context->Open(std::move(transport), std::move(abortion), timeout_s);
  context->ConnectAll(exchange);
  return context;
}

TransportPtr MakeTransport(bool one_host, const std::string& master) {
  ::gloo::transport::tcp::attr where;
  const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (one_host) {
    where.hostname = "127.0.0.1";
  } else if (interface != nullptr && *interface != '\0') {
    where.iface = interface;
  } else {
    where.hostname = AddressTowards(master.empty() ? HostName() : master);
    if (where.hostname.empty() || where.hostname.starts_with("127.") || where.hostname == "::1") {
      throw std::runtime_error(StrCat("ranks on other hosts cannot reach the address ",
                                      where.hostname.empty() ? "of this host, since none is known" : where.hostname,
                                      "; set GLOO_SOCKET_IFNAME to the network interface between the hosts, such as "
                                      "eth0"));
    }
  }
  return ::gloo::transport::tcp::CreateDevice(where);
}

}  // namespace twofold::gloo
