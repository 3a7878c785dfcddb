#include "backends/simulated/beside.h"

#include <algorithm>

namespace twofold {

uint64_t Communicating::Began(const void* stream, double seconds, const BesideIt& takes, bool brief) {
  if (seconds > 0 && (takes.multiprocessors > 0 || takes.bytes_per_second > 0))
    (brief ? brief_ : all_).push_back({++last_, stream, seconds, takes});
  return last_;
}

void Communicating::Ended(uint64_t number) {
  const auto is = [number](const One& one) { return one.number == number; };
  if (const auto brief = std::find_if(brief_.begin(), brief_.end(), is); brief != brief_.end()) {
    std::erase_if(brief_,
                  [&, stream = brief->stream](const One& one) { return one.stream == stream && one.number <= number; });
    return;
  }
  const auto last = std::find_if(all_.begin(), all_.end(), is);
  if (last == all_.end()) return;
  const void* const stream = last->stream;
  double left = 0;
  std::erase_if(all_, [&](const One& one) {
    const bool over = one.stream == stream && one.number <= number;
    left += over ? one.left : 0;
    return over;
  });
  Pass(left);
}

void Communicating::Pass(double seconds) {
  while (!all_.empty() && seconds > 0) {
    const double passed = std::min(seconds, all_.front().left);
    seconds -= passed, all_.front().left -= passed;
    if (all_.front().left <= 0) all_.pop_front();
  }
}

double Communicating::left() const {
  double left = 0;
  for (const auto* these : {&all_, &brief_})
    for (const One& one : *these) left += one.left;
  return left;
}

double Communicating::Take(double seconds, Slowdown slowdown) {
  const double slowed = Take(seconds, slowdown, brief_) - seconds;
  slowed_briefly_ += slowed;
  return Take(seconds, slowdown, all_) + slowed;
}

double Communicating::Take(double seconds, Slowdown slowdown, std::deque<One>& of) {
  double taken = 0;
  while (!of.empty() && seconds > 0) {
    One& first = of.front();
    const double factor = std::max(1.0, slowdown(first.takes));
    if (seconds * factor < first.left) {
      first.left -= seconds * factor;
      return taken + seconds * factor;
    }
    taken += first.left, seconds -= first.left / factor;
    of.pop_front();
  }
  return taken + std::max(0.0, seconds);
}

}  // namespace twofold
