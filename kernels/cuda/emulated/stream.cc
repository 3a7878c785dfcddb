#include "kernels/cuda/emulated/stream.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <utility>

#include "kernels/cuda/emulated/device_memory.h"
#include "kernels/cuda/emulated/multiprocessor.h"

namespace twofold::emulated {
namespace {

constexpr size_t kMarksAtOnce = 256;

constinit thread_local bool on_stream = false;
std::atomic<cudaError_t> failed{cudaSuccess};

// (std::atomic::wait orders more than it promises: it orders the notifying thread after the waiting one.)
void SleepWhile(const std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void WakeAll(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

bool OnStream() { return on_stream; }
cudaError_t Failed() { return failed.load(std::memory_order_relaxed); }
void SetFailed(cudaError_t error) {
  cudaError_t none = cudaSuccess;
  failed.compare_exchange_strong(none, error, std::memory_order_relaxed);
}
void Recover() { failed.store(cudaSuccess, std::memory_order_relaxed); }

void Mark::Reach() {
  time_ = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  reached_.store(1, std::memory_order_release);
  WakeAll(reached_);
}

void Mark::Wait() const {
  while (!reached()) SleepWhile(reached_, 0);
}

}  // namespace twofold::emulated

using twofold::emulated::Mark;

CUstream_st::CUstream_st(int device, bool blocking, uint64_t seed)
    : device(device), blocking(blocking), last_(new Node), first_(last_.load()) {
  std::thread([this, seed] { Loop(seed); }).detach();
}

// A queue with several writers and one reader (Vyukov, "Intrusive MPSC node-based queue"). It does not order writers
// after the reader.
void CUstream_st::Push(Work work, Mark* then) {
  Node* node = new Node;
  node->work = std::move(work);
  node->then = then;
  last_.exchange(node, std::memory_order_acq_rel)->next.store(node, std::memory_order_release);
  pushed_.fetch_add(1, std::memory_order_release);
  twofold::emulated::WakeAll(pushed_);
}

CUstream_st::Node* CUstream_st::Pop() {
  const uint32_t done = done_.load(std::memory_order_relaxed);
  while (pushed_.load(std::memory_order_acquire) == done) twofold::emulated::SleepWhile(pushed_, done);
  Node* next;
  // another writer is about to set it
  while ((next = first_->next.load(std::memory_order_acquire)) == nullptr) std::this_thread::yield();
  delete first_;
  return first_ = next;
}

void CUstream_st::Loop(uint64_t seed) {
  twofold::emulated::on_stream = true;
  twofold::emulated::ReachDeviceMemory(true);
  twofold::emulated::Multiprocessor multiprocessor(seed);
  while (!closing_) {
    Node* node = Pop();
    if (node->work) node->work();
    node->work = nullptr;
    done_.fetch_add(1, std::memory_order_release);
    if (node->then != nullptr) node->then->Reach();  // a thread that waited for it finds the stream idle
  }
}

void CUstream_st::Enqueue(Work work) {
  Push([work = std::move(work)] {
    if (twofold::emulated::Failed() == cudaSuccess) work();
  });
}

// marks_mutex_ must be held.
const Mark* CUstream_st::PushMark(Work work) {
  if (marks_.empty() || marks_used_ == twofold::emulated::kMarksAtOnce) {
    marks_.push_back(std::make_unique<Mark[]>(twofold::emulated::kMarksAtOnce));
    marks_used_ = 0;
  }
  Mark* mark = &marks_.back()[marks_used_++];
  Push(std::move(work), mark);
  return mark;
}

const Mark* CUstream_st::Record() {
  const std::scoped_lock lock(marks_mutex_);
  return end_ != nullptr ? end_ : PushMark(nullptr);
}

void CUstream_st::WaitFor(const Mark* mark) {
  Push([mark] { mark->Wait(); });
}

bool CUstream_st::idle() const {
  return done_.load(std::memory_order_acquire) == pushed_.load(std::memory_order_relaxed);
}

void CUstream_st::Close() {
  const std::scoped_lock lock(marks_mutex_);
  alive_.store(false, std::memory_order_relaxed);
  end_ = PushMark([this] { closing_ = true; });
}
