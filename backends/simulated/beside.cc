#include "backends/simulated/beside.h"

#include <algorithm>

namespace twofold {

uint64_t Communicating::Began(const void* stream, double seconds, const BesideIt& takes) {
  if (seconds > 0 && (takes.multiprocessors > 0 || takes.bytes_per_second > 0))
    all_.push_back({++last_, stream, seconds, takes});
  return last_;
}

void Communicating::Ended(uint64_t number) {
  const auto last = std::find_if(all_.begin(), all_.end(), [number](const One& one) { return one.number == number; });
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
  for (const One& one : all_) left += one.left;
  return left;
}

double Communicating::Take(double seconds, absl::FunctionRef<double(const BesideIt&)> slowdown) {
  double taken = 0;
  while (!all_.empty() && seconds > 0) {
    One& first = all_.front();
    const double factor = std::max(1.0, slowdown(first.takes));
    if (seconds * factor < first.left) {
      first.left -= seconds * factor;
      return taken + seconds * factor;
    }
    taken += first.left, seconds -= first.left / factor;
    all_.pop_front();
  }
  return taken + std::max(0.0, seconds);
}

}  // namespace twofold
