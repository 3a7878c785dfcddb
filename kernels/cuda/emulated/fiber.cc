#include "kernels/cuda/emulated/fiber.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "core/base/check.h"
#include "kernels/cuda/emulated/thread_sanitizer.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace twofold::emulated {
namespace {

namespace boost_context = boost::context::detail;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStack = 256 << 10;
#else
constexpr size_t kStack = 64 << 10;
#endif

#ifdef __SANITIZE_THREAD__
// maximum number of fibers made known; tsan crashes with more than about 8000 threads
constexpr int kKnownToTsan = 5000;

// Makes a call as if from this fiber.
template <class F>
void As(void* fiber, F call) {
  void* const self = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
  call();
  __tsan_switch_to_fiber(self, __tsan_switch_to_fiber_no_sync);
}
#endif

thread_local Fiber* starting = nullptr;  // for Start, which takes no argument

}  // namespace

Fiber::Fiber() {
  pthread_attr_t attributes;
  void* stack = nullptr;
  TWOFOLD_CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0, "a thread has attributes");
  TWOFOLD_CHECK(pthread_attr_getstack(&attributes, &stack, &size_) == 0, "a thread has a stack");
  pthread_attr_destroy(&attributes);
  stack_ = static_cast<std::byte*>(stack);
#ifdef __SANITIZE_THREAD__
  tsan_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(void (*enter)()) : enter_(enter), size_(kStack) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapped =
      mmap(nullptr, page + size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TWOFOLD_CHECK(mapped != MAP_FAILED, "memory for the stack of an emulated thread");
  TWOFOLD_CHECK(mprotect(mapped, page, PROT_NONE) == 0, "a page that stops a stack");
  stack_ = static_cast<std::byte*>(mapped) + page;
#ifdef __SANITIZE_THREAD__
  static std::atomic<int> made{0};
  owns_tsan_ = made.fetch_add(1, std::memory_order_relaxed) < kKnownToTsan;
  // otherwise tsan takes it for the thread that makes it
  tsan_ = owns_tsan_ ? __tsan_create_fiber(0) : __tsan_get_current_fiber();
  if (owns_tsan_) As(tsan_, BeginUnseen);
#endif
  Restart();
}

Fiber::~Fiber() {
  if (enter_ == nullptr) return;
#ifdef __SANITIZE_THREAD__
  if (owns_tsan_) {
    As(tsan_, EndUnseen);
    __tsan_destroy_fiber(tsan_);
  }
#endif
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(stack_, size_);  // the next mapping of this memory must start clean
#endif
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  munmap(stack_ - page, page + size_);
}

void Fiber::Restart() {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(stack_, size_);
#endif
#ifdef __SANITIZE_THREAD__
  As(tsan_, [this] { ComesBefore(this); });  // what the fiber did so far
  ComesAfter(this);
#endif
  fake_stack_ = nullptr;
  context_ = boost_context::make_fcontext(stack_ + size_, size_, &Fiber::Start);
}

void Fiber::Start(boost_context::transfer_t from) {
  Fiber& self = *starting;
  self.Arrived(from);
  self.enter_();
  TWOFOLD_CHECK(false, "the function of a fiber does not return");
}

void Fiber::Arrived(boost_context::transfer_t from) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
  static_cast<Fiber*>(from.data)->context_ = from.fctx;
}

void Fiber::SwitchTo(Fiber& other) {
  starting = &other;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_stack_, other.stack_, other.size_);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(other.tsan_, __tsan_switch_to_fiber_no_sync);
#endif
  Arrived(boost_context::jump_fcontext(other.context_, this));
}

}  // namespace twofold::emulated
