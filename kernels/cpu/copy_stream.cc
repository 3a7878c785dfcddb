#include "kernels/cpu/copy_stream.h"

#include <chrono>
#include <cstring>
#include <utility>

namespace twofold::cpu {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

class CopyStream::Point : public Event::State {
 public:
  Point(std::shared_ptr<Progress> progress, uint64_t at) : progress_(std::move(progress)), at_(at) {}
  bool Done() override {
    std::lock_guard lock(progress_->mutex);
    return progress_->done >= at_;
  }
  void Wait() override {
    std::unique_lock lock(progress_->mutex);
    progress_->changed.wait(lock, [this] { return progress_->done >= at_; });
  }

 private:
  const std::shared_ptr<Progress> progress_;
  const uint64_t at_;
};

CopyStream::CopyStream(std::string name, Observer observer) : name_(std::move(name)), observer_(std::move(observer)) {}

CopyStream::~CopyStream() {
  {
    std::lock_guard lock(progress_->mutex);
    closing_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void CopyStream::Copy(const void* from, void* to, size_t bytes) {
  Push({.from = from, .to = to, .bytes = bytes, .after = {}});
}

void CopyStream::Push(Task task) {
  {
    std::lock_guard lock(progress_->mutex);
    tasks_.push_back(std::move(task));
  }
  ++pushed_;
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  wake_.notify_one();
}

Event CopyStream::Record() { return pushed_ == 0 ? Event() : Event(std::make_shared<Point>(progress_, pushed_)); }

void CopyStream::WaitFor(const Event& event) {
  if (event.Done()) return event.Wait();  // throws the error, if something before the event failed
  if (dynamic_cast<Point*>(event.state()) != nullptr) return Push({.after = event});
  const double start = Now();
  event.Wait();
  stalled_ += Seconds(Now() - start);
}

void CopyStream::Synchronize() { Record().Wait(); }

void CopyStream::Loop() {
  std::unique_lock lock(progress_->mutex);
  while (true) {
    wake_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    Do(task);
    lock.lock();
    ++progress_->done;
    progress_->changed.notify_all();
  }
}

void CopyStream::Do(const Task& task) {
  task.after.Wait();
  if (task.bytes == 0) return;
  const double start = observer_ ? Now() : 0;
  std::memcpy(task.to, task.from, task.bytes);
  if (observer_) observer_(name_, Bytes(static_cast<int64_t>(task.bytes)), start, Now());
}

}  // namespace twofold::cpu
