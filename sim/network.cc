#include "sim/network.h"

#include <algorithm>
#include <utility>

#include "core/base/strings.h"

namespace twofold::sim {

Network::Network(Engine& engine, std::string algorithm, bool closed_forms, MeasuredCollectives measured, bool folded)
    : engine_(engine),
      algorithm_(std::move(algorithm)),
      closed_forms_(closed_forms),
      measured_(std::move(measured)),
      folded_(folded) {}

int Network::AddGroups(Groups groups) {
  groups_.emplace(next_groups_, std::move(groups));
  return next_groups_++;
}

void Network::RemoveGroups(int number) { groups_.erase(number); }

namespace {

Places PlacesOf(const Topology& t, const std::vector<int>& endpoints) {
  Places p = UniformPlaces(static_cast<int>(endpoints.size()), t.alpha().value(), t.bandwidth().value());
  p.shared_memory = t.kind() == "shared_memory_host";
  return p;
}

}  // namespace

Network::Known Network::Make(const CollectiveShape& shape, const Groups& groups) const {
  const Topology& t = engine_.topology();
  absl::StatusOr<Schedule> schedule =
      ChooseSchedule(shape, algorithm_, PlacesOf(t, groups[0]));
  if (!schedule.ok()) {
    throw RankFailure(RankFailure::Kind::kOther, 0, StrCat("fabric.simulated.algorithm: ", schedule.status().message()));
  }
  Known known;
  const double seconds = ClosedForm(*schedule, groups);
  if (closed_forms_) known.seconds = seconds;
  if (const auto measured = measured_.Seconds(shape); measured && algorithm_ == "auto") {
    known.seconds = *measured;
    if (seconds > 0) schedule->stretch = *measured / seconds;
  }
  if (folded_) known.one = OneForAll(*schedule, groups);
  known.schedule = std::make_shared<const Schedule>(*std::move(schedule));
  return known;
}

// Max-min sharing is even, and the flows end together, where each of them crosses a link that is never idle meanwhile and
// that only carries flows of its size; a flow that shares no link ends by itself.
double Network::PhaseSeconds(const Phase& phase, const Groups& groups) const {
  struct Load { double bytes = 0, each = -1; int flows = 0; bool even = true; };
  const Topology& topology = engine_.topology();
  std::vector<Load> loads(topology.links().size());
  std::vector<std::vector<int>> routes;
  double latency = phase.flows.empty() ? topology.alpha().value() : 0, transfer = 0;
  for (const std::vector<int>& endpoints : groups) {
    for (const sim::Flow& f : phase.flows) {
      const int from = endpoints[static_cast<size_t>(f.from)], to = endpoints[static_cast<size_t>(f.to)];
      latency = std::max(latency, topology.Latency({from, to}).value());
      topology.Route({from, to}, topology.DefaultRoute({from, to}), routes.emplace_back());
      for (int link : routes.back()) {
        Load& load = loads[static_cast<size_t>(link)];
        load.even = load.even && (load.flows == 0 || load.each == f.bytes);
        load.each = f.bytes, load.bytes += f.bytes, ++load.flows;
        transfer = std::max(transfer, load.bytes / topology.links()[static_cast<size_t>(link)].bandwidth.value());
      }
    }
  }
  for (const std::vector<int>& route : routes) {
    bool alone = true, full = false;
    for (int link : route) {
      const Load& load = loads[static_cast<size_t>(link)];
      const double seconds = load.bytes / topology.links()[static_cast<size_t>(link)].bandwidth.value();
      alone = alone && load.flows == 1;
      full = full || (load.even && seconds >= transfer * (1 - 1e-12));
    }
    if (!alone && !full) return -1;
  }
  return phase.rounds * latency + transfer;
}

double Network::ClosedForm(const Schedule& schedule, const Groups& groups) const {
  for (int last : schedule.last_phase) {
    if (last != schedule.last_phase[0]) return -1;
  }
  double seconds = 0;
  for (const Phase& phase : schedule.phases) {
    const double more = PhaseSeconds(phase, groups);
    if (more < 0) return -1;
    seconds += more;
  }
  return seconds;
}

// Each endpoint sends one flow a phase and receives one, of equal bytes, on links of its own, so that every link carries
// one flow of each collective in flight; and all that an endpoint sends leaves by one link, none being narrower: there the
// collectives share, at each endpoint alike.
std::shared_ptr<const Schedule> Network::OneForAll(const Schedule& schedule, const Groups& groups) const {
  const Topology& topology = engine_.topology();
  if (!topology.symmetric() || groups.size() * groups[0].size() != static_cast<size_t>(topology.endpoints())) return nullptr;
  Schedule one{{}, {static_cast<int>(schedule.phases.size()) - 1}, schedule.stretch};
  std::vector<int> route;
  topology.Route({0, 1}, topology.DefaultRoute({0, 1}), route);
  const int out = route.front();
  const BytesPerSecond narrowest = topology.links()[static_cast<size_t>(out)].bandwidth;
  for (const Phase& phase : schedule.phases) {
    std::vector<int> sent(groups[0].size()), received(groups[0].size()), carried(topology.links().size());
    Phase& own = one.phases.emplace_back(Phase{.rounds = phase.rounds, .flows = {}});
    for (const sim::Flow& f : phase.flows) {
      if (f.bytes != phase.flows[0].bytes) return nullptr;
      ++sent[static_cast<size_t>(f.from)], ++received[static_cast<size_t>(f.to)];
      if (f.from == 0) own.flows.push_back(f);
      for (const std::vector<int>& endpoints : groups) {
        const Pair pair{endpoints[static_cast<size_t>(f.from)], endpoints[static_cast<size_t>(f.to)]};
        topology.Route(pair, topology.DefaultRoute(pair), route);
        if (f.from == 0 && endpoints[0] == 0 && route.front() != out) return nullptr;
        for (int link : route) {
          if (++carried[static_cast<size_t>(link)] > 1 || topology.links()[static_cast<size_t>(link)].bandwidth < narrowest) return nullptr;
        }
      }
    }
    auto once = [](int n) { return n == 1; };
    const bool regular = std::all_of(sent.begin(), sent.end(), once) && std::all_of(received.begin(), received.end(), once);
    if (!phase.flows.empty() && !regular) return nullptr;
  }
  return std::make_shared<const Schedule>(std::move(one));
}

void Network::Collective(int number, const CollectiveShape& shape, double start,
                         std::function<void(const std::vector<double>&)> done) {
  const Groups& groups = groups_.at(number);
  const Key key(number, shape.kind, shape.bytes, shape.root);
  Known& entry = known_[key];
  if (entry.schedule == nullptr || shape.kind == Communication::kAllToAllV) entry = Make(shape, groups);
  const Known known = entry;  // others that run while this one starts its flows may add to known_
  const bool alone = Alone();
  if (alone && known.seconds >= 0) return done({start + known.seconds});
  Flow(known, groups, start, [this, key, alone, start, done = std::move(done)](const std::vector<double>& finish) {
    const auto [first, last] = std::minmax_element(finish.begin(), finish.end());
    const bool reusable = std::get<1>(key) != Communication::kAllToAllV;
    if (alone && reusable && *first == *last) known_[key].seconds = *last - start;
    done(finish);
  });
}

void Network::Flow(const Known& known, const Groups& groups, double start,
                   std::function<void(const std::vector<double>&)> done) {
  const std::vector<Phase>& phases = known.schedule->phases;
  const bool flows = std::any_of(phases.begin(), phases.end(), [](const Phase& p) { return !p.flows.empty(); });
  if (folded_ && flows) {
    int& in_flight = known.one != nullptr ? ones_ : alls_;
    ++in_flight;
    exact_ = exact_ && (ones_ == 0 || alls_ == 0);
    done = [&in_flight, done = std::move(done)](const std::vector<double>& finish) {
      --in_flight;
      done(finish);
    };
  }
  if (known.one != nullptr) return engine_.Transfer(known.one, groups[0], start, std::move(done));
  if (groups.size() == 1) return engine_.Transfer(known.schedule, groups[0], start, std::move(done));
  struct All { size_t left; std::vector<double> finish; std::function<void(const std::vector<double>&)> done; };
  const auto all = std::make_shared<All>(All{groups.size(), {}, std::move(done)});
  for (const std::vector<int>& endpoints : groups) {
    engine_.Transfer(known.schedule, endpoints, start, [all](const std::vector<double>& finish) {
      all->finish.insert(all->finish.end(), finish.begin(), finish.end());
      if (--all->left == 0) all->done(all->finish);
    });
  }
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
