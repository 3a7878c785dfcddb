// A stack of its own on which a function runs, and switching between such stacks within a thread of the host. Known to the sanitizers;
// to the thread sanitizer, nothing that one fiber did comes before what another does because of a switch.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace twofold::emulated {

class Fiber {
 public:
  // The thread itself, as it runs.
  Fiber();
  // Runs enter(), which never returns, from the first switch to it on. When it runs, and whenever it switches, the thread sanitizer does
  // not see it (thread_sanitizer.h).
  explicit Fiber(void (*enter)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // From this fiber, which is running, to another. Returns when something switches back.
  void SwitchTo(Fiber& other);
  // Forgets what a fiber that does not run was doing: the next switch to it calls enter(). No destructors run.
  void Restart();

 private:
  static void Start(boost::context::detail::transfer_t from);
  void Arrived(boost::context::detail::transfer_t from);

  boost::context::detail::fcontext_t context_ = nullptr;  // of a fiber that does not run
  void (*const enter_)() = nullptr;
  std::byte* stack_ = nullptr;  // lowest address
  size_t size_ = 0;
  void* fake_stack_ = nullptr;  // of the address sanitizer
  void* tsan_ = nullptr;        // of the thread sanitizer
  bool owns_tsan_ = false;
};

}  // namespace twofold::emulated
