// One TCP connection that carries messages: a length, then a protocol buffer.
//
// Everything runs on the io_context's thread. Until the other side is trusted, only short messages are accepted.
// Otherwise a stranger's first four bytes could make this process allocate a gibibyte.
#pragma once

#include <google/protobuf/message_lite.h>

#include <array>
#include <asio.hpp>
#include <deque>
#include <functional>
#include <string>

namespace twofold::watch {

class Link : public std::enable_shared_from_this<Link> {
 public:
  using OnMessage = std::function<void(const std::string& bytes)>;
  using OnClose = std::function<void(asio::error_code why)>;

  explicit Link(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}
  // Handlers may keep the link alive; they are released when it closes. OnClose is called once, and not after Close().
  void Start(OnMessage on_message, OnClose on_close);
  void Send(const google::protobuf::MessageLite& message);
  void Close();
  void Trust() { most_bytes_ = kMostBytes; }  // the other side has been identified

 private:
  static constexpr uint32_t kMostBytes = 1u << 30, kMostOfStranger = 1u << 12;

  void ProbeWhenSilent();
  void ReadLength();
  void ReadBody();
  void Write();
  void Break(asio::error_code why);

  asio::ip::tcp::socket socket_;
  OnMessage on_message_;
  OnClose on_close_;
  std::array<unsigned char, 4> length_{};
  std::string body_;
  std::deque<std::string> outgoing_;
  uint32_t most_bytes_ = kMostOfStranger;
  bool mute_ = false;  // writing has failed
};

// What happened to a process whose link closed with this error: "has ended", or "is unreachable: ..." if its host
// leaves everything unanswered.
std::string HowLost(asio::error_code why);

}  // namespace twofold::watch
