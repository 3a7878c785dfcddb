// Delays packets by constant times: what netem does, where the kernel has none.
//
//     delay_line NAMESPACE_FILE:QUEUE:MICROSECONDS ...
//
// Firewall rules put packets into NFQUEUE queues of network namespaces; this program lets every packet of a queue go on
// when it has waited for the queue's time. Packets stay in the kernel, in order; only their numbers travel, and one
// verdict releases all that are due. One thread, SCHED_FIFO; needs CAP_NET_ADMIN and CAP_SYS_ADMIN. Prints "ready" when
// all queues are bound, and ends with SIGTERM. A queue that nobody serves drops its packets.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr uint32_t kMostWaiting = 1 << 16;  // packets a queue
constexpr int kReceiveBuffer = 8 << 20;
constexpr int kPriority = 20;

int64_t Now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "delay_line: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

// One netlink message to the queue's socket.
class Request {
 public:
  Request(uint16_t message, uint16_t queue) {
    header().nlmsg_type = static_cast<uint16_t>((NFNL_SUBSYS_QUEUE << 8) | message);
    header().nlmsg_flags = NLM_F_REQUEST;
    auto& family = *reinterpret_cast<nfgenmsg*>(bytes_ + NLMSG_HDRLEN);
    family.nfgen_family = AF_UNSPEC;
    family.version = NFNETLINK_V0;
    family.res_id = htons(queue);
    size_ = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(nfgenmsg));
  }
  template <class Value>
  Request& Add(uint16_t type, const Value& value) {
    auto& attribute = *reinterpret_cast<nlattr*>(bytes_ + size_);
    attribute.nla_type = type;
    attribute.nla_len = static_cast<uint16_t>(NLA_HDRLEN + sizeof(Value));
    std::memcpy(bytes_ + size_ + NLA_HDRLEN, &value, sizeof(Value));
    size_ += NLA_ALIGN(attribute.nla_len);
    return *this;
  }
  void SendTo(int socket) {
    header().nlmsg_len = static_cast<uint32_t>(size_);
    if (send(socket, bytes_, size_, 0) < 0) Fail("netlink");
  }

 private:
  nlmsghdr& header() { return *reinterpret_cast<nlmsghdr*>(bytes_); }

  alignas(8) char bytes_[256] = {};
  size_t size_ = 0;
};

class Line {
 public:
  // Binds the queue of the namespace that this thread is in.
  Line(uint16_t queue, int64_t delay) : queue_(queue), delay_(delay) {
    socket_ = ::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_NETFILTER);
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    if (socket_ < 0 || bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      Fail("NFQUEUE socket");
    const int one = 1;
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof(kReceiveBuffer));
    setsockopt(socket_, SOL_NETLINK, NETLINK_NO_ENOBUFS, &one, sizeof(one));
    Request(NFQNL_MSG_CONFIG, queue_)
        .Add(NFQA_CFG_CMD, nfqnl_msg_config_cmd{.command = NFQNL_CFG_CMD_BIND, .pf = htons(AF_INET)})
        .SendTo(socket_);
    Request(NFQNL_MSG_CONFIG, queue_)
        .Add(NFQA_CFG_PARAMS, nfqnl_msg_config_params{.copy_range = 0, .copy_mode = NFQNL_COPY_META})
        .Add(NFQA_CFG_QUEUE_MAXLEN, htonl(kMostWaiting))
        .Add(NFQA_CFG_MASK, htonl(NFQA_CFG_F_GSO))
        .Add(NFQA_CFG_FLAGS, htonl(NFQA_CFG_F_GSO))
        .SendTo(socket_);
  }

  int socket() const { return socket_; }
  std::optional<int64_t> due() const { return waiting_.empty() ? std::nullopt : std::optional(waiting_.front().due); }

  void Release(int64_t now) {
    std::optional<uint32_t> last;
    for (; !waiting_.empty() && waiting_.front().due <= now; waiting_.pop_front()) last = waiting_.front().packet;
    if (!last) return;
    Request(NFQNL_MSG_VERDICT_BATCH, queue_)
        .Add(NFQA_VERDICT_HDR, nfqnl_msg_verdict_hdr{.verdict = htonl(NF_ACCEPT), .id = htonl(*last)})
        .SendTo(socket_);
  }

  void TakeIn(int64_t now) {
    alignas(8) char buffer[1 << 16];
    for (ssize_t got; (got = recv(socket_, buffer, sizeof(buffer), 0)) > 0;) {
      auto left = static_cast<int>(got);
      for (auto* m = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) TakeIn(*m, now);
    }
  }

 private:
  struct Packet {
    int64_t due;
    uint32_t packet;
  };

  void TakeIn(const nlmsghdr& message, int64_t now) {
    if (message.nlmsg_type == NLMSG_ERROR) {
      errno = -reinterpret_cast<const nlmsgerr*>(NLMSG_DATA(&message))->error;
      if (errno != 0) Fail("NFQUEUE (is it in the kernel, and the queue free?)");
    }
    if ((message.nlmsg_type & 0xff) != NFQNL_MSG_PACKET) return;
    const char* at = static_cast<const char*>(NLMSG_DATA(&message)) + NLMSG_ALIGN(sizeof(nfgenmsg));
    const char* const end = reinterpret_cast<const char*>(&message) + message.nlmsg_len;
    while (at + NLA_HDRLEN <= end) {
      const auto& attribute = *reinterpret_cast<const nlattr*>(at);
      if ((attribute.nla_type & NLA_TYPE_MASK) == NFQA_PACKET_HDR) {
        const auto& header = *reinterpret_cast<const nfqnl_msg_packet_hdr*>(at + NLA_HDRLEN);
        waiting_.push_back({now + delay_, ntohl(header.packet_id)});
        return;
      }
      if (attribute.nla_len < NLA_HDRLEN) return;
      at += NLA_ALIGN(attribute.nla_len);
    }
  }

  const uint16_t queue_;
  const int64_t delay_;  // ns
  int socket_ = -1;
  std::deque<Packet> waiting_;
};

// "FILE:QUEUE:MICROSECONDS"; enters the namespace and binds the queue there.
Line Open(const std::string& text) {
  const size_t last = text.rfind(':'), middle = text.rfind(':', last - 1);
  if (last == std::string::npos || middle == std::string::npos) {
    errno = EINVAL;
    Fail("\"" + text + "\" is not NAMESPACE_FILE:QUEUE:MICROSECONDS");
  }
  const std::string file = text.substr(0, middle);
  const int space = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) Fail(file);
  close(space);
  return Line(static_cast<uint16_t>(std::stoi(text.substr(middle + 1))),
              static_cast<int64_t>(std::stod(text.substr(last + 1)) * 1e3));
}

[[noreturn]] void Serve(std::vector<Line>& lines) {
  const int poll = epoll_create1(0);
  for (size_t i = 0; i < lines.size(); ++i) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, lines[i].socket(), &event) != 0) Fail("epoll");
  }
  for (;;) {
    std::optional<int64_t> next;
    for (Line& line : lines) {
      line.Release(Now());
      if (line.due() && (!next || *line.due() < *next)) next = line.due();
    }
    timespec wait{};
    if (next) {
      const int64_t left = std::max<int64_t>(*next - Now(), 0);
      wait = {left / 1'000'000'000, left % 1'000'000'000};
    }
    epoll_event events[64];
    const int ready = epoll_pwait2(poll, events, static_cast<int>(std::size(events)), next ? &wait : nullptr, nullptr);
    if (ready < 0 && errno != EINTR) Fail("epoll");
    const int64_t now = Now();
    for (int i = 0; i < ready; ++i) lines[events[i].data.u64].TakeIn(now);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  std::vector<Line> lines;
  for (int i = 1; i < argc; ++i) lines.push_back(Open(argv[i]));
  if (setns(own, CLONE_NEWNET) != 0) Fail("own namespace");
  mlockall(MCL_CURRENT | MCL_FUTURE);
  prctl(PR_SET_TIMERSLACK, 1);
  sched_param priority{};
  priority.sched_priority = kPriority;
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
    std::perror("delay_line: no real-time priority, delays will vary");
  std::puts("ready");
  std::fflush(stdout);
  Serve(lines);
}
