// A library for LD_PRELOAD that makes Open MPI's ranks sleep while nothing arrives.
//
// Open MPI's progress loop asks its sockets again and again without waiting (poll and epoll_wait with a time-out of
// zero). Where ranks outnumber cores that keeps the cores from those that have work to do. Here such a question waits,
// for at most a millisecond (IDLE_BLOCK_US), until something arrives; the loop's second question after something came
// is let through. Only the thread that asks waits. Needs Linux 5.11 (epoll_pwait2).
#include <poll.h>
#include <sys/epoll.h>

#include <cstdlib>
#include <ctime>

namespace {

constexpr timespec kAtOnce{};

timespec Longest() {
  const char* text = std::getenv("IDLE_BLOCK_US");
  const long us = text == nullptr ? 1000 : std::atol(text);
  return {us / 1'000'000, us % 1'000'000 * 1000};
}

thread_local bool arrived = false;  // at the last question

// What a time-out of `milliseconds` becomes; null: forever.
const timespec* TimeOut(int milliseconds, timespec& storage) {
  static const timespec kLongest = Longest();
  if (milliseconds == 0) return arrived ? &kAtOnce : &kLongest;
  if (milliseconds < 0) return nullptr;
  storage = {milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  return &storage;
}

int Note(int milliseconds, int ready) {
  if (milliseconds == 0) arrived = ready > 0;
  return ready;
}

}  // namespace

extern "C" {

int poll(pollfd* files, nfds_t count, int milliseconds) {
  timespec storage;
  const timespec* wait = count == 0 && milliseconds == 0 ? &kAtOnce : TimeOut(milliseconds, storage);
  return Note(milliseconds, ppoll(files, count, wait, nullptr));
}

int epoll_wait(int poll, epoll_event* events, int most, int milliseconds) {
  timespec storage;
  const timespec* wait = TimeOut(milliseconds, storage);
  return Note(milliseconds, epoll_pwait2(poll, events, most, wait, nullptr));
}

}  // extern "C"
