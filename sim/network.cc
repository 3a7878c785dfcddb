#include "sim/network.h"

#include <algorithm>
#include <utility>

#include "core/base/strings.h"

namespace twofold::sim {

Network::Network(Engine& engine, std::string algorithm, bool closed_forms, MeasuredCollectives measured)
    : engine_(engine), algorithm_(std::move(algorithm)), closed_forms_(closed_forms), measured_(std::move(measured)) {}

int Network::AddGroup(std::vector<int> endpoints) {
  groups_.emplace(next_group_, std::move(endpoints));
  return next_group_++;
}

void Network::RemoveGroup(int group) { groups_.erase(group); }

std::shared_ptr<const Schedule> Network::Make(const CollectiveShape& shape) {
  const Topology& t = engine_.topology();
  absl::StatusOr<Schedule> schedule =
      ChooseSchedule(shape, algorithm_, t.alpha().value(), t.bandwidth().value(), t.kind() == "shared_memory_host");
  if (schedule.ok()) return std::make_shared<const Schedule>(*std::move(schedule));
  throw RankFailure(RankFailure::Kind::kOther, 0,
                    StrCat("fabric.simulated.algorithm: ", schedule.status().message()));
}

double Network::Alone(const Schedule& schedule, const CollectiveShape& shape, const std::vector<int>& endpoints) const {
  if (algorithm_ == "auto") {
    if (const std::optional<double> seconds = measured_.Seconds(shape)) return *seconds;
  }
  return closed_forms_ ? ClosedForm(schedule, endpoints) : -1;
}

double Network::ClosedForm(const Schedule& schedule, const std::vector<int>& endpoints) const {
  const Topology& topology = engine_.topology();
  for (int last : schedule.last_phase) {
    if (last != schedule.last_phase[0]) return -1;
  }
  double seconds = 0;
  std::vector<int> used(topology.links().size(), -1), route;  // links, by the phase that used them last
  for (size_t p = 0; p < schedule.phases.size(); ++p) {
    const Phase& phase = schedule.phases[p];
    double latency = phase.flows.empty() ? topology.alpha().value() : 0, transfer = 0;
    for (const Flow& f : phase.flows) {
      const int from = endpoints[static_cast<size_t>(f.from)], to = endpoints[static_cast<size_t>(f.to)];
      latency = std::max(latency, topology.Latency(from, to).value());
      topology.Route(from, to, route);
      for (int link : route) {
        if (std::exchange(used[static_cast<size_t>(link)], static_cast<int>(p)) == static_cast<int>(p)) return -1;
        transfer = std::max(transfer, f.bytes / topology.links()[static_cast<size_t>(link)].bandwidth.value());
      }
    }
    seconds += phase.rounds * latency + transfer;
  }
  return seconds;
}

void Network::Collective(int group, const CollectiveShape& shape, double start,
                         std::function<void(const std::vector<double>&)> done) {
  Known& known = known_[Key(group, shape.kind, shape.bytes, shape.root)];
  if (known.schedule == nullptr || shape.kind == Communication::kAllToAllV) known = {Make(shape), -1};
  const bool alone = Alone();
  if (alone && known.seconds < 0) known.seconds = Alone(*known.schedule, shape, groups_.at(group));
  if (alone && known.seconds >= 0) {
    return done(std::vector<double>(static_cast<size_t>(shape.ranks), start + known.seconds));
  }
  const Key key(group, shape.kind, shape.bytes, shape.root);
  engine_.Transfer(known.schedule, groups_.at(group), start,
                   [this, key, alone, start, done = std::move(done)](const std::vector<double>& finish) {
                     const auto [first, last] = std::minmax_element(finish.begin(), finish.end());
                     const bool reusable = std::get<1>(key) != Communication::kAllToAllV;
                     if (alone && reusable && *first == *last) known_[key].seconds = *last - start;
                     done(finish);
                   });
}

void Network::Message(int from, int to, double bytes, double start, std::function<void(double)> done) {
  messages_ = true;
  auto schedule = std::make_shared<Schedule>();
  schedule->phases.push_back({.rounds = 1, .flows = {{0, 1, bytes}}});
  schedule->last_phase = {0, 0};
  engine_.Transfer(std::move(schedule), {from, to}, start,
                   [done = std::move(done)](const std::vector<double>& finish) { done(finish[0]); });
}

}  // namespace twofold::sim
