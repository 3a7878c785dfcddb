// One TCP connection that carries messages: a length, then a protocol buffer.
//
// All of it runs on the io_context's thread.
#pragma once

#include <google/protobuf/message_lite.h>

#include <array>
#include <asio.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace twofold::watch {

class Link : public std::enable_shared_from_this<Link> {
 public:
  using OnMessage = std::function<void(const std::string& bytes)>;
  using OnClose = std::function<void()>;

  explicit Link(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}
  // Handlers may hold the link alive; they are let go when it closes. OnClose is called once, not after Close().
  void Start(OnMessage on_message, OnClose on_close);
  void Send(const google::protobuf::MessageLite& message);
  void Close();
  bool idle() const { return outgoing_.empty(); }  // all that was sent has left

 private:
  static constexpr uint32_t kMostBytes = 1u << 30;

  void ProbeWhenSilent();
  void ReadLength();
  void ReadBody();
  void Write();
  void Break();

  asio::ip::tcp::socket socket_;
  OnMessage on_message_;
  OnClose on_close_;
  std::array<unsigned char, 4> length_{};
  std::string body_;
  std::deque<std::string> outgoing_;
  bool mute_ = false;  // writing has failed
};

}  // namespace twofold::watch
