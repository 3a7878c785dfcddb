// A thread that runs what others hand to it, in that order, and looks at its clock every few milliseconds.
#pragma once

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_future.hpp>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

namespace twofold::control {

class Loop {
 public:
  Loop(std::chrono::milliseconds every, std::function<void()> tick) : every_(every), tick_(std::move(tick)) {
    AwaitTick();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Loop() { Stop(); }

  void Post(std::function<void()> task) { asio::post(io_, std::move(task)); }                     // from any thread
  void Do(const std::function<void()>& task) { asio::post(io_, asio::use_future(task)).wait(); }  // and waits for it
  // Runs nothing more. From another thread.
  void Stop() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void AwaitTick() {
    timer_.expires_after(every_);
    timer_.async_wait([this](asio::error_code) {
      tick_();
      AwaitTick();
    });
  }

  const std::chrono::milliseconds every_;
  const std::function<void()> tick_;
  asio::io_context io_;
  asio::steady_timer timer_{io_};
  std::thread thread_;
};

}  // namespace twofold::control
