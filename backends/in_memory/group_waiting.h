// How ranks of a group wait for each other: a short spin, then a sleep that looks up every few milliseconds. Only for
// the files of GroupState.
#pragma once

#include <chrono>
#include <condition_variable>
#include <thread>

#include "backends/in_memory/group_state.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace twofold::in_memory {

// Some ten microseconds. Yields, since there may be more ranks than cores.
inline constexpr int kPauses = 256, kYields = 32;
inline constexpr std::chrono::milliseconds kLook(20);

inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

template <class Done>
bool SpinUntil(Done done) {
  for (int i = 0; i < kPauses; ++i) {
    if (done()) return true;
    Pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (done()) return true;
    std::this_thread::yield();
  }
  return done();
}

template <class Done, class WhoIsMissing>
void GroupState::Await(Lock& lock, std::condition_variable& changed, int rank, const Call& call, Done done,
                       WhoIsMissing missing) {
  const double started = run_.Now();
  while (!done()) {
    ThrowIfBroken(rank);
    ThrowIfHopeless(rank, call, missing(), started);
    changed.wait_for(lock, kLook);
  }
}

}  // namespace twofold::in_memory
