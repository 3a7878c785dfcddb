// When the data of a group's calls arrives, if links are slowed down.
#include <algorithm>

#include "backends/host/sleep.h"
#include "backends/in_memory/group_state.h"

namespace twofold::in_memory {
namespace {

sim::CollectiveShape ShapeOf(const Round& round, const Communication& c) {
  sim::CollectiveShape shape{
      c.kind, round.size(), static_cast<double>(c.bytes().value()), host::Rooted(c.kind) ? c.peer : 0, {}};
  if (c.kind == Communication::kGather ||
      c.kind == Communication::kScatter) {  // ranks other than the root know the size of their part
    shape.bytes = static_cast<double>((c.kind == Communication::kGather ? c.in : c.out).bytes().value()) * round.size();
  }
  for (int r = 0; c.kind == Communication::kAllToAllV && r < round.size(); ++r) {
    auto& row = shape.matrix.emplace_back();
    for (const int64_t count : round[r].call->communication.in_counts) {
      row.push_back(static_cast<double>(count * ElementSize(c.in.dtype())));
    }
  }
  return shape;
}

}  // namespace

// Call once all ranks have arrived. The first caller starts the collective's transfer.
TravelPtr GroupState::TravelOf(const Call& call) {
  const Round round(rendezvous_, call.sequence);
  std::lock_guard lock(travels_mutex_);
  InFlight& flight = travels_[call.sequence];
  if (flight.travel == nullptr) {
    double start = 0;
    for (int r = 0; r < size(); ++r) start = std::max({start, round[r].issued, free_[static_cast<size_t>(r)]});
    flight = {links_->Collective(ShapeOf(round, call.communication), ranks_, start), size()};
  }
  const TravelPtr travel = flight.travel;
  if (--flight.unasked == 0) travels_.erase(call.sequence);
  return travel;
}

// Later transfers may delay the arrival.
void GroupState::AwaitArrival(int rank, const Call& call, std::span<const std::pair<TravelPtr, int>> travels) {
  double arrival = 0;
  while (true) {
    double forecast = call.issued;
    for (const auto& [travel, place] : travels) forecast = std::max(forecast, links_->Arrival(*travel, place));
    if (forecast <= arrival) break;
    arrival = forecast;
    host::SleepUntil(run_.Steady(arrival), [&] {
      if (run_.ending()) run_.ThrowIfEnding(world_rank(rank), call.ToString());
    });
  }
  call.finished = arrival;
  std::lock_guard lock(travels_mutex_);
  free_[static_cast<size_t>(rank)] = arrival;
}

}  // namespace twofold::in_memory
