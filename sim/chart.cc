// Schedules whose flows are solved in advance.
#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "sim/course.h"
#include "sim/engine.h"
#include "sim/latency.h"
#include "sim/sharing/hashes.h"

namespace twofold::sim {
namespace {

constexpr size_t kMostOnRoute = 8;  // links, in most networks; memory that is not used costs nothing

// Of one copy, as listed: what its phases need.
struct ListedCopy {
  std::vector<double> seconds = {};              // latencies
  std::vector<std::vector<double>> routes = {};  // by phase and flow: latencies of routes that count
  std::vector<FlowSet> flows = {};
};

}  // namespace

std::shared_ptr<const LinkTwins> Engine::TwinsOf(std::span<const Copy> copies) {
  size_t flows = 0;
  for (const Phase& phase : copies[0].schedule->phases) flows += phase.flows.size();
  const auto same = [&](const Copy& c) { return c.schedule == copies[0].schedule; };
  if (copies.size() < 2 || copies.size() * flows < twins_from_ || !Twins::Possible(router_.options().policy) ||
      !std::all_of(copies.begin(), copies.end(), same))
    return nullptr;
  std::vector<std::vector<int>> endpoints;
  for (const Copy& copy : copies) endpoints.push_back(copy.endpoints);
  auto known = twins_.find(endpoints);
  if (known == twins_.end()) {
    Twins twins(topology_, router_, endpoints, static_cast<int64_t>(twins_.size()));
    known = twins_.emplace(std::move(endpoints), std::move(twins)).first;
  }
  return known->second.Cover(*copies[0].schedule) ? known->second.links() : nullptr;
}

// What tells courses apart that have the same patterns; nullopt if flows are not given by kind.
std::optional<Engine::Charted> Engine::KeyOf(std::span<const Copy> copies) const {
  const Schedule& schedule = *copies[0].schedule;
  Charted key;
  for (const Copy& copy : copies)
    if (copy.schedule != copies[0].schedule) return std::nullopt;
  for (const Phase& phase : schedule.phases) {
    if (phase.flows.pattern() == nullptr && !phase.flows.empty()) return std::nullopt;
    key.patterns.push_back(phase.flows.pattern());
    const double bytes = phase.flows.empty() ? 0 : phase.flows.kinds()[0].bytes;
    if (!phase.flows.empty() && bytes == 0) return std::nullopt;
    key.bytes.push_back(bytes * schedule.stretch);
    const bool pipelined = IsPipelined(phase);
    for (const Flow& f : phase.flows.kinds()) {
      // Shares that differ by rounding are equal: without the last 12 bits, rounded.
      key.kinds.push_back((std::bit_cast<uint64_t>(f.bytes / bytes) + (1 << 11)) >> 12);
      key.kinds.push_back(std::bit_cast<uint64_t>(f.rate));
      key.kinds.push_back(static_cast<uint64_t>(f.rail + 1) << 1 | (RouteCounts(phase, pipelined, f) ? 1 : 0));
    }
  }
  SequenceHash hash(copies.size());
  for (const Copy& copy : copies) {
    for (const int e : copy.endpoints) hash.Add(static_cast<uint64_t>(e));
  }
  key.endpoints = hash.Get();
  return key;
}

std::shared_ptr<const Engine::Course> Engine::Chart(std::span<const Copy> copies) {
  std::optional<Charted> key = KeyOf(copies);
  const auto same = [&key](const Charted& known) {
    return std::tie(known.patterns, known.endpoints, known.kinds) ==
           std::tie(key->patterns, key->endpoints, key->kinds);
  };
  if (key) {
    const auto known = std::find_if(charted_.begin(), charted_.end(), same);
    if (known != charted_.end()) return ChartLike(*known, *key, *copies[0].schedule);
  }
  auto course = std::make_shared<Course>();
  const std::shared_ptr<const LinkTwins> twins = TwinsOf(copies);
  std::vector<ListedCopy> sets;
  std::vector<int> lots;  // by set: copies
  for (const Copy& copy : copies) {
    if (twins != nullptr && &copy != copies.data()) {
      course->copies.push_back(course->copies[0]);
      continue;
    }
    ListedCopy own;
    List(copy, twins, own.seconds, own.routes, own.flows);
    const std::vector<int>& last_phase = copy.schedule->last_phase;
    auto set = std::find_if(sets.begin(), sets.end(), [&own](const ListedCopy& s) { return s.seconds == own.seconds; });
    course->copies.push_back({static_cast<size_t>(set - sets.begin()), last_phase});
    const auto last = static_cast<int>(copy.schedule->phases.size()) - 1;
    for (int l : last_phase) course->together = course->together && l == last;
    if (set == sets.end()) {
      sets.push_back(std::move(own));
      lots.push_back(1);
      continue;
    }
    const int lot = lots[course->copies.back().set]++;
    for (size_t p = 0; p < own.flows.size(); ++p) set->flows[p].Add(own.flows[p], lot);
  }
  for (ListedCopy& set : sets) {
    std::vector<Course::Phase>& phases = course->sets.emplace_back().phases;
    for (size_t p = 0; p < set.seconds.size(); ++p) {
      const bool none = set.flows[p].empty();
      phases.push_back({set.seconds[p], none ? nullptr : flows_->Solve(std::move(set.flows[p]))});
    }
  }
  if (key) {
    for (const Course::Copy& copy : course->copies) key->set_of.push_back(copy.set);
    for (size_t s = 0; s < sets.size(); ++s) {
      Charted::Set& kept = key->sets.emplace_back(Charted::Set{.routes = std::move(sets[s].routes)});
      for (const Course::Phase& phase : course->sets[s].phases) kept.flows.push_back(phase.flows);
    }
    constexpr size_t kMostCharted = 16;
    if (charted_.size() >= kMostCharted) charted_.pop_front();
    charted_.push_back(*std::move(key));
  }
  course->together = course->together && course->sets.size() == 1;
  if (course->together) course->copies = {};
  return course;
}

// To solve its flows later costs no more than now: they are given by kind, and nobody asks for what links carry.
bool Engine::MayWait(const Schedule& schedule) const {
  const auto by_kind = [](const Phase& phase) { return phase.flows.empty() || phase.flows.pattern() != nullptr; };
  return !links_ && !router_.depends_on_load() && !schedule.loose &&
         std::all_of(schedule.phases.begin(), schedule.phases.end(), by_kind);
}

std::shared_ptr<const Engine::Course> Engine::ChartUnsolved(const Copy& copy, std::span<const Alone> phases) {
  auto course = std::make_shared<Course>();
  Course::Set& set = course->sets.emplace_back();
  for (const Alone& phase : phases) set.phases.push_back({phase.latency, nullptr, phase.flows, phase.most});
  const std::vector<int>& last_phase = copy.schedule->last_phase;
  const auto last = static_cast<int>(phases.size()) - 1;
  course->together = std::all_of(last_phase.begin(), last_phase.end(), [last](int l) { return l == last; });
  if (!course->together) course->copies = {{0, last_phase}};
  course->solve = [this, schedule = copy.schedule, endpoints = std::make_shared<const std::vector<int>>(copy.endpoints),
                   solved = std::shared_ptr<const Course>()]() mutable {
    const Copy own{schedule, *endpoints};
    if (solved == nullptr) solved = Chart({&own, 1});
    return solved;
  };
  return course;
}

void Engine::List(const Copy& copy, const std::shared_ptr<const LinkTwins>& twins, std::vector<double>& seconds,
                  std::vector<std::vector<double>>& latencies, std::vector<FlowSet>& sets) {
  const Schedule& schedule = *copy.schedule;
  std::vector<Path> paths;
  for (const Phase& phase : schedule.phases) {
    std::vector<double>& routes = latencies.emplace_back();
    FlowSet& flows = sets.emplace_back();
    flows.twins = twins;
    flows.Reserve(phase.flows.size()), routes.reserve(phase.flows.size());
    flows.links.reserve(kMostOnRoute * phase.flows.size());
    const bool pipelined = IsPipelined(phase);
    for (size_t i = 0; i < phase.flows.size(); ++i) {
      const Flow f = phase.flows[i];
      const Pair pair{copy.endpoints[static_cast<size_t>(f.from)], copy.endpoints[static_cast<size_t>(f.to)], f.rail};
      router_.Choose(pair, i, f.bytes * schedule.stretch, paths);
      const bool counts = RouteCounts(phase, pipelined, f);
      routes.push_back(counts ? RouteLatency(topology_, router_.options().policy, pair, paths) : 0);
      for (const Path& path : paths) {
        const double bytes = f.bytes * path.share * schedule.stretch;
        if (bytes > 0) flows.Add(path.links, bytes, f.rate * path.share);
      }
    }
    flows_listed_ += static_cast<int64_t>(phase.flows.size());
    seconds.push_back(PhaseLatency(phase, routes, topology_.alpha().value()) * schedule.stretch);
  }
}

// Of another size: the latencies of the software may be others, and the bytes of all flows of a phase change by one
// factor.
std::shared_ptr<const Engine::Course> Engine::ChartLike(const Charted& known, const Charted& now,
                                                        const Schedule& schedule) {
  auto course = std::make_shared<Course>();
  for (const Charted::Set& set : known.sets) {
    std::vector<Course::Phase>& phases = course->sets.emplace_back().phases;
    for (size_t p = 0; p < schedule.phases.size(); ++p) {
      const double seconds = PhaseLatency(schedule.phases[p], set.routes[p], topology_.alpha().value());
      phases.push_back(
          {seconds * schedule.stretch,
           set.flows[p] == nullptr ? nullptr : flows_->SolveLike(*set.flows[p], now.bytes[p] / known.bytes[p])});
    }
  }
  const auto last = static_cast<int>(schedule.phases.size()) - 1;
  const bool all_last =
      std::all_of(schedule.last_phase.begin(), schedule.last_phase.end(), [last](int l) { return l == last; });
  course->together = all_last && course->sets.size() == 1;
  if (course->together) return course;
  for (const size_t set : known.set_of) course->copies.push_back({set, schedule.last_phase});
  return course;
}

}  // namespace twofold::sim
