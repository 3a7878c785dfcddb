// A stream with its own thread, which copies memory while the host computes.
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

// Used only by the host's thread; the stream's own thread starts with the first copy.
class CopyStream : public Stream {
 public:
  // Called by the stream's own thread after each copy; times are in seconds of std::chrono::steady_clock. May be empty.
  using Observer = std::function<void(std::string_view stream, Bytes bytes, double start_s, double end_s)>;
  CopyStream(std::string name, Observer observer);
  ~CopyStream() override;  // waits until all copies are done
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  // The caller keeps the memory alive until the copy is done.
  void Copy(const void* from, void* to, size_t bytes);

  Event Record() override;
  // The stream's thread waits for events of other CopyStreams; the host waits for all others.
  void WaitFor(const Event& event) override;
  void Synchronize() override;
  Seconds stalled() override { return stalled_; }  // time that the host waited

 private:
  // The number of tasks done. Shared with its events, which may outlive the stream.
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
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();  // its mutex guards tasks_ and closing_
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool closing_ = false;
  uint64_t pushed_ = 0;  // only used by the host's thread
  Seconds stalled_;
  std::thread thread_;
};

}  // namespace twofold::cpu
