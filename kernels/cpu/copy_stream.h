// A stream with a thread of its own, which copies memory while the host computes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "core/device/device.h"

namespace twofold::cpu {

// Used from one thread, the host's; the thread of its own starts with the first copy.
class CopyStream : public Stream {
 public:
  // Told of each copy by the stream's own thread, in seconds of std::chrono::steady_clock. May be empty.
  using Observer = std::function<void(std::string_view stream, Bytes bytes, double start_s, double end_s)>;
  CopyStream(std::string name, Observer observer);
  ~CopyStream() override;  // when all is copied
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  // The memory stays where it is until the copy is done.
  void Copy(const void* from, void* to, size_t bytes);

  Event Record() override;
  // Another CopyStream's events are waited for by this stream's thread, all others by the host.
  void WaitFor(const Event& event) override;
  void Synchronize() override;
  Seconds stalled() override { return stalled_; }  // the host's waits

 private:
  // How far the stream is. Its events may outlive it.
  struct Progress {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t done = 0;
  };
  class Point;
  struct Task {
    const void* from = nullptr;
    void* to = nullptr;
    size_t bytes = 0;
    Event after;  // waited for first
  };
  void Push(Task task);
  void Loop();
  void Do(const Task& task);

  const std::string name_;
  const Observer observer_;
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();  // its mutex guards what follows
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool closing_ = false;
  uint64_t pushed_ = 0;  // the host's own
  Seconds stalled_;
  std::thread thread_;
};

}  // namespace twofold::cpu
