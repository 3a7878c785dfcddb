// A separate stack on which a function runs, and switching between such stacks within a host thread. The sanitizers
// know about fibers. For the thread sanitizer, a switch does not order the accesses of two fibers.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace twofold::emulated {

class Fiber {
 public:
  // The host thread itself, which is already running.
  Fiber();
  // From the first switch to it on, the fiber runs enter(), which never returns. When it starts to run, and whenever it
  // switches, its accesses are hidden from the thread sanitizer (thread_sanitizer.h).
  explicit Fiber(void (*enter)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Switches from this fiber, which must be running, to another. Returns when something switches back.
  void SwitchTo(Fiber& other);
  // Discards the state of a fiber that is not running: the next switch to it calls enter(). No destructors run.
  void Restart();

 private:
  static void Start(boost::context::detail::transfer_t from);
  void Arrived(boost::context::detail::transfer_t from);

  boost::context::detail::fcontext_t context_ = nullptr;  // of a fiber that is not running
  void (*const enter_)() = nullptr;
  std::byte* stack_ = nullptr;  // lowest address
  size_t size_ = 0;
  void* fake_stack_ = nullptr;  // of the address sanitizer
  void* tsan_ = nullptr;        // of the thread sanitizer
  bool owns_tsan_ = false;
};

}  // namespace twofold::emulated
