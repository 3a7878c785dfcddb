#include "backends/gloo/abortable.h"

#include <gloo/common/error.h>

#include <exception>
#include <utility>

namespace twofold::gloo {

using ::gloo::transport::Pair;
using ::gloo::transport::UnboundBuffer;

namespace {

[[noreturn]] void ThrowAborted() { throw ::gloo::IoException("the generation of members is broken"); }

}  // namespace

// `all`: the abortion's set of those that are waited for.
template <class Of>
class Abortion::Waiting {
 public:
  Waiting(Abortion& abortion, std::set<Of*>& all, Of& one) : abortion_(abortion), all_(all), one_(one) {
    const std::lock_guard lock(abortion_.mutex_);
    if (abortion_.aborted_) ThrowAborted();
    all_.insert(&one_);
  }
  ~Waiting() {
    const std::lock_guard lock(abortion_.mutex_);
    all_.erase(&one_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Abortion& abortion_;
  std::set<Of*>& all_;
  Of& one_;
};

void Abortion::Abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (UnboundBuffer* buffer : waiting_) buffer->abortWaitRecv(), buffer->abortWaitSend();
  for (Pair* pair : connecting_) pair->close();
}

// A pair that is closed while it connects returns as if it were connected. One that was closed before throws, or
// returns.
void Abortion::Connect(Pair& pair, const std::vector<char>& address) {
  try {
    const Waiting<Pair> waiting(*this, connecting_, pair);
    pair.connect(address);
  } catch (const std::exception&) {
    if (!aborted()) throw;
  }
  if (aborted()) ThrowAborted();
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
  // Others may still be in an earlier call of the same kind, whose messages have the same slot: what is posted after an
  // abortion would be taken for theirs. Gloo's thread does not survive a message that is longer than it expects.
  void send(int to, uint64_t slot, size_t offset, size_t bytes) override {
    ThrowIfAborted();
    inner_->send(to, slot, offset, bytes);
  }
  void recv(int from, uint64_t slot, size_t offset, size_t bytes) override {
    ThrowIfAborted();
    inner_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override {
    ThrowIfAborted();
    inner_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  void ThrowIfAborted() const {
    if (abortion_->aborted()) ThrowAborted();
  }
  template <class F>
  bool Wait(const F& wait) {
    bool done = false;
    {
      const Abortion::Waiting<UnboundBuffer> waiting(*abortion_, abortion_->waiting_, *inner_);
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
