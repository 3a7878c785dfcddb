#include "backends/watch/link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

#include "core/base/strings.h"

namespace twofold::watch {

void Link::Start(OnMessage on_message, OnClose on_close) {
  on_message_ = std::move(on_message);
  on_close_ = std::move(on_close);
  asio::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  ProbeWhenSilent();
  ReadLength();
}

// A host that is gone sends nothing. If it leaves all keep-alive probes unanswered, the link breaks within half a
// minute. By default systems wait for two hours.
void Link::ProbeWhenSilent() {
  constexpr int kIdle_s = 10, kEvery_s = 5, kProbes = 3;
  asio::error_code ignored;
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [this](int option, int value) {
    setsockopt(socket_.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, kIdle_s);
  set(TCP_KEEPINTVL, kEvery_s);
  set(TCP_KEEPCNT, kProbes);
  set(TCP_USER_TIMEOUT, (kIdle_s + kEvery_s * kProbes) * 1000);  // the same limit for unacknowledged data
}

void Link::ReadLength() {
  asio::async_read(socket_, asio::buffer(length_), [self = shared_from_this()](asio::error_code error, size_t) {
    if (error) return self->Break(error);
    const auto& l = self->length_;
    const uint32_t size = uint32_t{l[0]} | uint32_t{l[1]} << 8 | uint32_t{l[2]} << 16 | uint32_t{l[3]} << 24;
    if (size > self->most_bytes_) return self->Break(asio::error::message_size);
    self->body_.resize(size);
    self->ReadBody();
  });
}

void Link::ReadBody() {
  asio::async_read(socket_, asio::buffer(body_), [self = shared_from_this()](asio::error_code error, size_t) {
    if (error) return self->Break(error);
    const OnMessage tell = self->on_message_;  // a copy: the handler may close the link
    if (tell) tell(self->body_);
    self->ReadLength();
  });
}

void Link::Send(const google::protobuf::MessageLite& message) {
  if (!socket_.is_open() || mute_) return;
  const std::string body = message.SerializeAsString();
  const auto size = static_cast<uint32_t>(body.size());
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) frame.push_back(static_cast<char>(size >> shift & 0xff));
  outgoing_.push_back(frame + body);
  if (outgoing_.size() == 1) Write();
}

void Link::Write() {
  asio::async_write(socket_, asio::buffer(outgoing_.front()),
                    [self = shared_from_this()](asio::error_code error, size_t) {
                      if (!self->socket_.is_open()) return;
                      if (error) self->mute_ = true;  // the other side's last messages must still be read
                      if (error) return self->outgoing_.clear();
                      self->outgoing_.pop_front();
                      if (!self->outgoing_.empty()) self->Write();
                    });
}

void Link::Break(asio::error_code why) {
  if (!socket_.is_open()) return;
  const OnClose tell = std::move(on_close_);
  Close();
  if (tell) tell(why);
}

void Link::Close() {
  asio::error_code ignored;
  socket_.close(ignored);
  outgoing_.clear();
  on_message_ = nullptr;
  on_close_ = nullptr;
}

std::string HowLost(asio::error_code why) {
  const bool cut_off =
      why == asio::error::timed_out || why == asio::error::host_unreachable || why == asio::error::network_unreachable;
  return cut_off ? StrCat("is unreachable: its host does not answer (", why.message(), ")") : "has ended";
}

}  // namespace twofold::watch
