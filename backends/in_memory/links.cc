#include "backends/in_memory/links.h"

#include <algorithm>

#include "core/base/check.h"

namespace twofold::in_memory {

Links::Links(int ranks, double bytes_per_second, double latency_s)
    : seconds_per_byte_(1 / bytes_per_second),
      latency_(latency_s),
      out_(static_cast<size_t>(ranks)),
      in_(static_cast<size_t>(ranks)) {}

double Links::Send(int from, int to, double bytes, double ready, int latencies) {
  double &out = out_[static_cast<size_t>(from)], &in = in_[static_cast<size_t>(to)];
  const double seconds = bytes * seconds_per_byte_, begin = std::max(ready, out);
  out = begin + seconds;
  in = std::max(begin, in) + seconds;
  return in + latencies * latency_;
}

double Links::Message(int from, int to, double bytes, double ready) {
  std::lock_guard lock(mutex_);
  return Send(from, to, bytes, ready, 1);
}

std::vector<double> Links::Collective(const sim::CollectiveShape& shape, std::span<const int> ranks, double start) {
  const absl::StatusOr<sim::Schedule> schedule = sim::ChooseSchedule(shape, "auto", latency_, 1 / seconds_per_byte_, false);
  TWOFOLD_CHECK(schedule.ok(), schedule.status().message());  // "auto" has an algorithm for everything
  std::vector<double> here(ranks.size(), start);
  std::lock_guard lock(mutex_);
  for (const sim::Phase& phase : schedule->phases) {
    std::vector<double> next = here;
    if (phase.flows.empty()) {  // rounds of messages without bytes
      std::fill(next.begin(), next.end(), *std::max_element(here.begin(), here.end()) + phase.rounds * latency_);
    }
    for (const sim::Flow& f : phase.flows) {
      const auto from = static_cast<size_t>(f.from), to = static_cast<size_t>(f.to);
      const double arrival = Send(ranks[from], ranks[to], f.bytes, here[from], phase.rounds);
      next[from] = std::max(next[from], arrival);
      next[to] = std::max(next[to], arrival);
    }
    here = std::move(next);
  }
  return here;
}

}  // namespace twofold::in_memory
