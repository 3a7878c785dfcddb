#include "backends/in_memory/links.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/check.h"

namespace twofold::in_memory {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kLate = 5e-3;  // seconds by which a start may be reported after other, later starts
constexpr double kTogether =
    1e-9;  // of a time: algorithms that differ by less are equally fast, and the first is taken
constexpr double kInstant = 1e-10;  // a transfer with less time left is complete: clocks do not resolve less

std::vector<double> Bandwidths(int ranks, double of_rank, const SiteLinks& sites) {
  std::vector<double> all(2 * static_cast<size_t>(ranks), of_rank);
  all.resize(all.size() + 2 * static_cast<size_t>(sites.count), sites.bytes_per_second);
  return all;
}

}  // namespace

struct Travel {
  sim::Schedule schedule;
  std::vector<int> ranks;  // world ranks
  double start;
  std::vector<double> arrivals;  // by place; the latest forecast
};

Links::Links(int ranks, double bytes_per_second, double latency_s, const SiteLinks& sites)
    : ranks_(ranks),
      bytes_per_second_(bytes_per_second),
      latency_(latency_s),
      sites_(sites),
      fluid_(Bandwidths(ranks, bytes_per_second, sites)) {
  TWOFOLD_CHECK_GE(sites.count, 1);
  TWOFOLD_CHECK_EQ(ranks % sites.count, 0);
}

TravelPtr Links::Message(int from, int to, double bytes, double ready) {
  const int ranks[] = {from, to};
  return Begin({.phases = {{.rounds = 1, .flows = {{0, 1, bytes}}}}, .last_phase = {0, 0}}, ranks, ready);
}

TravelPtr Links::Collective(const sim::CollectiveShape& shape, std::span<const int> ranks, double start) {
  sim::Schedule schedule = [&] {
    std::lock_guard lock(mutex_);
    return Choose(shape, ranks);
  }();
  return Begin(std::move(schedule), ranks, start);
}

// Within a site, estimates are exact. Between sites, they know nothing of the link that all ranks of a site share.
const sim::Schedule& Links::Choose(const sim::CollectiveShape& shape, std::span<const int> ranks) {
  sim::Schedule& chosen = chosen_[{shape.kind, {ranks.begin(), ranks.end()}, shape.bytes, shape.root}];
  if (!chosen.last_phase.empty() && shape.matrix.empty()) return chosen;
  const bool apart = std::any_of(ranks.begin(), ranks.end(), [&](int r) { return SiteOf(r) != SiteOf(ranks[0]); });
  const double latency = apart ? latency_ + sites_.latency_s : latency_;
  const double rate = apart ? std::min(bytes_per_second_, sites_.bytes_per_second) : bytes_per_second_;
  std::vector<sim::Schedule> all = sim::AutoSchedules(shape, sim::UniformPlaces(shape.ranks, latency, rate));
  size_t best = 0;
  double least = kNever;
  for (size_t i = 0; apart && all.size() > 1 && i < all.size(); ++i) {
    const double seconds = SecondsAlone(all[i], ranks);
    if (seconds < least * (1 - kTogether)) best = i, least = seconds;
  }
  return chosen = std::move(all[best]);
}

double Links::SecondsAlone(const sim::Schedule& schedule, std::span<const int> ranks) const {
  if (schedule.phases.empty()) return 0;
  const auto travel = std::make_shared<Travel>(Travel{schedule, {ranks.begin(), ranks.end()}, 0, {}});
  travel->arrivals.assign(ranks.size(), 0);
  Traffic alone;
  alone.flights.push_back({.travel = travel, .moves = Latency(schedule.phases[0], ranks), .left = {}, .rates = {}});
  Run(alone, kNever);
  return *std::max_element(travel->arrivals.begin(), travel->arrivals.end());
}

double Links::Arrival(const Travel& travel, int place) const {
  std::lock_guard lock(mutex_);
  return travel.arrivals[static_cast<size_t>(place)];
}

TravelPtr Links::Begin(sim::Schedule schedule, std::span<const int> ranks, double start) {
  auto travel = std::make_shared<Travel>(Travel{std::move(schedule), {ranks.begin(), ranks.end()}, start, {}});
  travel->arrivals.assign(ranks.size(), start);
  if (travel->schedule.phases.empty()) return travel;
  std::lock_guard lock(mutex_);
  latest_ = std::max(latest_, start);
  Run(past_, latest_ - kLate);
  const double moves = std::max(start, past_.time) + Latency(travel->schedule.phases[0], ranks);
  past_.flights.push_back({.travel = travel, .moves = moves, .left = {}, .rates = {}});
  Traffic future = past_;
  Run(future, kNever);
  return travel;
}

double Links::Latency(const sim::Phase& phase, std::span<const int> ranks) const {
  std::vector<double> routes;
  for (const sim::Flow& flow : phase.flows) {
    const int from = ranks[static_cast<size_t>(flow.from)], to = ranks[static_cast<size_t>(flow.to)];
    routes.push_back(SiteOf(from) == SiteOf(to) ? latency_ : latency_ + sites_.latency_s);
  }
  return sim::PhaseLatency(phase, routes, latency_);
}

// Advances from event to event: bytes begin to move, or a flow's last bytes have arrived.
void Links::Run(Traffic& traffic, double until) const {
  while (traffic.time < until) {
    SetRates(traffic);
    const double next = std::min(until, Next(traffic));
    if (next == kNever) return;
    for (Flight& f : traffic.flights) {
      for (size_t i = 0; f.moving && i < f.left.size(); ++i) {
        f.left[i] -= f.rates[i] * (next - traffic.time);
        if (f.left[i] <= f.rates[i] * kInstant) f.left[i] = 0;
      }
    }
    traffic.time = next;
    for (Flight& f : traffic.flights) Proceed(f, next);
    std::erase_if(traffic.flights, [](const Flight& f) { return f.phase == f.travel->schedule.phases.size(); });
  }
}

double Links::Next(const Traffic& traffic) const {
  double next = kNever;
  for (const Flight& f : traffic.flights) {
    if (!f.moving) next = std::min(next, std::max(f.moves, traffic.time));
    for (size_t i = 0; f.moving && i < f.left.size(); ++i) {
      if (f.left[i] > 0) next = std::min(next, traffic.time + f.left[i] / f.rates[i]);
    }
  }
  return next;
}

void Links::SetRates(Traffic& traffic) const {
  fluid_.Clear();
  std::vector<double*> rates;  // by flow
  const int first_site = 2 * ranks_;
  for (Flight& f : traffic.flights) {
    const sim::FlowList& flows = f.travel->schedule.phases[f.phase].flows;
    for (size_t i = 0; f.moving && i < flows.size(); ++i) {
      if (f.left[i] == 0) continue;
      const int from = f.travel->ranks[static_cast<size_t>(flows[i].from)],
                to = f.travel->ranks[static_cast<size_t>(flows[i].to)];
      absl::InlinedVector<int, 4> ways = {2 * from, 2 * to + 1};
      if (SiteOf(from) != SiteOf(to)) {
        ways.push_back(first_site + 2 * SiteOf(from));
        ways.push_back(first_site + 2 * SiteOf(to) + 1);
      }
      fluid_.Add(ways, f.left[i]);
      rates.push_back(&f.rates[i]);
    }
  }
  const std::vector<double>& shares = fluid_.Rates();
  for (size_t i = 0; i < rates.size(); ++i) *rates[i] = shares[i];
}

void Links::Proceed(Flight& f, double time) const {
  const std::vector<sim::Phase>& phases = f.travel->schedule.phases;
  while (f.phase < phases.size()) {
    if (!f.moving) {
      if (f.moves > time) return;
      f.moving = true;
      f.left.clear();
      for (const sim::Flow& flow : phases[f.phase].flows) f.left.push_back(flow.bytes);
      f.rates.assign(f.left.size(), 0);
    }
    if (std::any_of(f.left.begin(), f.left.end(), [](double left) { return left > 0; })) return;
    f.ends.push_back(time);
    f.moving = false;
    if (++f.phase < phases.size()) f.moves = time + Latency(phases[f.phase], f.travel->ranks);
  }
  for (size_t r = 0; r < f.travel->arrivals.size(); ++r) {
    const int last = f.travel->schedule.last_phase[r];
    f.travel->arrivals[r] = last < 0 ? f.travel->start : f.ends[static_cast<size_t>(last)];
  }
}

}  // namespace twofold::in_memory
