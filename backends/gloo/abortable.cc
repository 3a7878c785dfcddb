#include "backends/gloo/abortable.h"

#include <gloo/common/error.h>

#include <utility>
#include <vector>

namespace twofold::gloo {

using ::gloo::transport::UnboundBuffer;

namespace {

[[noreturn]] void ThrowAborted() { throw ::gloo::IoException("the generation of members is broken"); }

}  // namespace

class Abortion::Waiting {
 public:
  Waiting(Abortion& abortion, UnboundBuffer& buffer) : abortion_(abortion), buffer_(buffer) {
    const std::lock_guard lock(abortion_.mutex_);
    if (abortion_.aborted_) ThrowAborted();
    abortion_.waiting_.insert(&buffer_);
  }
  ~Waiting() {
    const std::lock_guard lock(abortion_.mutex_);
    abortion_.waiting_.erase(&buffer_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Abortion& abortion_;
  UnboundBuffer& buffer_;
};

void Abortion::Abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (UnboundBuffer* buffer : waiting_) buffer->abortWaitRecv(), buffer->abortWaitSend();
}

bool Abortion::aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

class AbortableBuffer : public UnboundBuffer {
 public:
  AbortableBuffer(std::unique_ptr<UnboundBuffer> inner, std::shared_ptr<Abortion> abortion)
      : UnboundBuffer(inner->ptr, inner->size), inner_(std::move(inner)), abortion_(std::move(abortion)) {}

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override {
    return Wait([&] { return inner_->waitRecv(rank, timeout); });
  }
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
    return Wait([&] { return inner_->waitSend(rank, timeout); });
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }
  void send(int to, uint64_t slot, size_t offset, size_t bytes) override { inner_->send(to, slot, offset, bytes); }
  void recv(int from, uint64_t slot, size_t offset, size_t bytes) override { inner_->recv(from, slot, offset, bytes); }
  void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override {
    inner_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  template <class F>
  bool Wait(const F& wait) {
    bool done = false;
    {
      const Abortion::Waiting waiting(*abortion_, *inner_);
      done = wait();
    }
    if (!done && abortion_->aborted()) ThrowAborted();
    return done;
  }

  const std::unique_ptr<UnboundBuffer> inner_;
  const std::shared_ptr<Abortion> abortion_;
};

namespace {

class AbortableContext : public ::gloo::transport::Context {
 public:
  AbortableContext(std::shared_ptr<::gloo::transport::Context> inner, std::shared_ptr<Abortion> abortion)
      : Context(inner->rank, inner->size), inner_(std::move(inner)), abortion_(std::move(abortion)) {}

  std::unique_ptr<::gloo::transport::Pair>& getPair(int rank) override { return inner_->getPair(rank); }
  std::unique_ptr<::gloo::transport::Pair>& createPair(int rank) override { return inner_->createPair(rank); }
  std::unique_ptr<UnboundBuffer> createUnboundBuffer(void* ptr, size_t size) override {
    return std::make_unique<AbortableBuffer>(inner_->createUnboundBuffer(ptr, size), abortion_);
  }

 private:
  const std::shared_ptr<::gloo::transport::Context> inner_;
  const std::shared_ptr<Abortion> abortion_;
};

}  // namespace

std::shared_ptr<::gloo::transport::Context> Abortable(std::shared_ptr<::gloo::transport::Context> inner,
                                                      std::shared_ptr<Abortion> abortion) {
  return std::make_shared<AbortableContext>(std::move(inner), std::move(abortion));
}

}  // namespace twofold::gloo
