#include "backends/simulated/least_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "backends/simulated/plan.h"
#include "sim/collectives/copy_engines.h"
#include "sim/cost/kernel_table.h"
#include "sim/phase_times.h"
#include "sim/places.h"

namespace twofold {
namespace {

class Times final : public LeastTimes {
 public:
  explicit Times(SimulationPlan plan)
      : plan_(std::move(plan)), router_(*plan_.topology, plan_.routing), phases_(*plan_.topology, router_) {
    slowdown_ = plan_.machine.slowdown;
    if (!plan_.compute_factors.empty())
      slowdown_ *= std::min(1.0, *std::min_element(plan_.compute_factors.begin(), plan_.compute_factors.end()));
  }

  void SetLayout(const spec::Parallel& parallel) override {
    copies_ = RingCopiesOf(parallel, plan_.tp_overlap, plan_.machine.communication_launch_seconds);
  }

  Seconds Operation(const ops::Op& op) override { return plan_.costs->Time(op).seconds * slowdown_; }
  double Deviation(const ops::Op& op) override {
    return plan_.compute_factors.empty() && CountsFlops(ops::Key(op).name) ? plan_.machine.speed_spread : 0;
  }
  Seconds Launch(const ops::Op& op) override {
    if (!plan_.machine.gpu) return Seconds(0);
    const Seconds alone = plan_.costs->Time(op).launch.value_or(Seconds(plan_.machine.launch_seconds));
    return plan_.machine.graphs ? std::min(alone, Seconds(plan_.machine.graphs->operation_seconds)) : alone;
  }
  Seconds Transfer(const Tensor& from, const Tensor& to) override {
    return plan_.host_link.Time(from, to, *plan_.costs);
  }

  Seconds Collective(const std::vector<int>& ranks, Communication::Kind kind, double bytes, int root) override {
    if (ranks.size() < 2 || kind == Communication::kBarrier || kind == Communication::kAllToAllV) return Seconds(0);
    const Key key(NumberOf(ranks), static_cast<int>(kind), bytes, root);
    const auto [at, fresh] = known_.try_emplace(key, 0);
    if (!fresh) return Seconds(at->second);
    const sim::CollectiveShape shape{
        .kind = kind, .ranks = static_cast<int>(ranks.size()), .bytes = bytes, .root = root, .follows = true};
    const auto measured = plan_.choice.algorithm == "auto" ? plan_.collectives.Seconds(shape) : std::nullopt;
    const double seconds = measured ? *measured : Fastest(shape, EndpointsOf(ranks));
    known_[key] = seconds;
    return Seconds(seconds);
  }

  Occupation Occupies(const std::vector<int>& ranks, int rank, const Communication& c) override {
    if (!plan_.machine.beside || ranks.size() < 2) return {};
    return c.is_collective() ? OfCollective(ranks, c) : OfMessages(ranks, rank, c);
  }
  double MessageOccupies(const std::vector<int>& ranks, int from, int to, double bytes) override {
    const auto place = [&ranks](int rank) {
      return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
    };
    return plan_.machine.beside ? MessageBeside(ranks, place(from), place(to), bytes).seconds : 0;
  }
  double Slowdown(const ops::Op& op, const BesideIt& takes) override { return plan_.costs->Slowdown(op, takes); }

  const std::vector<Load>& Loads(const std::vector<int>& ranks, int rank, const Communication& c) override {
    loads_now_.clear();
    if (ranks.size() < 2) return loads_now_;
    if (c.is_collective()) return LoadsOfCollective(ranks, rank, c);
    const auto add = [&](bool send, int peer, const Tensor& tensor) {
      if (peer == kAnySource || peer == rank) return;
      const auto& more = LoadsOfMessage(ranks, send ? rank : peer, send ? peer : rank, send, tensor.bytes());
      loads_now_.insert(loads_now_.end(), more.begin(), more.end());
    };
    if (c.kind == Communication::kSend) add(true, c.peer, c.in);
    if (c.kind == Communication::kRecv) add(false, c.peer, c.out);
    for (const P2p& op : c.batch) add(op.kind == P2p::kSend, op.peer, op.tensor);
    return loads_now_;
  }

  Seconds Message(const std::vector<int>& ranks, int from, int to, double bytes) override {
    const Key key(-1 - from, to, bytes, NumberOfMessages(ranks));
    const auto [at, fresh] = known_.try_emplace(key, 0);
    if (!fresh) return Seconds(at->second);
    const double seconds = TimeOf(ScheduleOfMessage(ranks, from, to, bytes), EndpointsOf({from, to}));
    known_[key] = seconds;
    return Seconds(seconds);
  }

 private:
  // As SimulatedProcessGroup::Beside has it.
  static Occupation TakesOf(double seconds, double multiprocessors, double bytes, const Communication& c) {
    if (!(seconds > 0)) return {};
    return {seconds, {multiprocessors, (c.sums() ? 3 : 2) * bytes / seconds}};
  }
  // Known if the library has one schedule for it. Where it has several, it depends on their times on the network.
  Occupation OfCollective(const std::vector<int>& ranks, const Communication& c) {
    if (c.kind == Communication::kGather || c.kind == Communication::kScatter || c.kind == Communication::kAllToAllV)
      return {};
    const auto bytes = static_cast<double>(c.bytes().value());
    const Key key(NumberOf(ranks), static_cast<int>(c.kind), bytes, c.peer);
    const auto [at, fresh] = occupied_.try_emplace(key);
    if (!fresh) return at->second;
    const sim::CollectiveShape shape{
        .kind = c.kind, .ranks = static_cast<int>(ranks.size()), .bytes = bytes, .root = c.peer};
    const sim::Places places = sim::PlacesOf(*plan_.topology, EndpointsOf(ranks));
    const auto plans = plan_.library->Plans(shape, places, plan_.choice);
    if (!plans.ok() || plans->empty() || (plans->size() > 1 && !plan_.topology->symmetric())) return {};
    const sim::Schedule& schedule = plans->front();
    const auto measured = plan_.choice.algorithm == "auto" ? plan_.collectives.Seconds(shape) : std::nullopt;
    const double seconds = measured ? *measured : sim::EstimateSeconds(schedule, places);
    return occupied_[key] = TakesOf(seconds, schedule.multiprocessors, sim::BusiestBytes(schedule), c);
  }
  // Where ranks are folded, the simulation takes the first rank's message of this kind for all: the lesser counts.
  Occupation OfMessages(const std::vector<int>& ranks, int rank, const Communication& c) {
    double seconds = 0, multiprocessors = 0, bytes = 0;
    const auto n = static_cast<int>(ranks.size());
    const auto add = [&](bool send, int peer, const Tensor& tensor) {
      if (peer == kAnySource || peer == rank) return;
      const int from = send ? rank : peer, to = send ? peer : rank;
      const auto size = static_cast<double>(tensor.bytes().value());
      const OfMessage& own = MessageBeside(ranks, from, to, size);
      const OfMessage& first = MessageBeside(ranks, 0, (to - from + n) % n, size);
      seconds = std::max(seconds, std::min(own.seconds, first.seconds));
      multiprocessors = std::max(multiprocessors, std::min(own.multiprocessors, first.multiprocessors));
      bytes = std::max(bytes, std::min(own.bytes, first.bytes));
    };
    if (c.kind == Communication::kSend) add(true, c.peer, c.in);
    if (c.kind == Communication::kRecv) add(false, c.peer, c.out);
    for (const P2p& op : c.batch) add(op.kind == P2p::kSend, op.peer, op.tensor);
    return TakesOf(seconds, multiprocessors, bytes, c);
  }
  struct OfMessage {
    double seconds = 0, multiprocessors = 0, bytes = 0;
  };
  const OfMessage& MessageBeside(const std::vector<int>& ranks, int from, int to, double bytes) {
    const auto [at, fresh] = occupied_by_messages_.try_emplace(Key(-1 - from, to, bytes, NumberOfMessages(ranks)));
    if (!fresh) return at->second;
    const int sender = ranks[static_cast<size_t>(from)], receiver = ranks[static_cast<size_t>(to)];
    const sim::Schedule schedule = ScheduleOfMessage(ranks, sender, receiver, bytes);
    const sim::Places places = sim::PlacesOf(*plan_.topology, EndpointsOf({sender, receiver}));
    return at->second = {sim::EstimateSeconds(schedule, places), static_cast<double>(schedule.multiprocessors),
                         sim::BusiestBytes(schedule)};
  }
  // `from` and `to`: world ranks.
  sim::Schedule ScheduleOfMessage(const std::vector<int>& ranks, int from, int to, double bytes) {
    sim::Places places = sim::PlacesOf(*plan_.topology, EndpointsOf({from, to}));
    const sim::Places group = sim::PlacesOf(*plan_.topology, EndpointsOf(ranks));
    places.group = &group;
    if (AreCopies(ranks) && sim::MayCopy(places)) return sim::CopyByEngine(bytes);
    return plan_.library->Message(bytes, places);
  }

  const std::vector<Load>& LoadsOfCollective(const std::vector<int>& ranks, int rank, const Communication& c) {
    if (c.kind == Communication::kBarrier || c.kind == Communication::kAllToAllV) return loads_now_;
    const auto n = static_cast<int>(ranks.size());
    const auto [at, fresh] = loads_.try_emplace(
        {NumberOf(ranks), static_cast<int>(c.kind), static_cast<double>(c.bytes().value()), c.peer, rank});
    if (!fresh) return at->second;
    const sim::CollectiveShape shape{
        .kind = c.kind, .ranks = n, .bytes = static_cast<double>(c.bytes().value()), .root = c.peer, .follows = true};
    const bool measured = plan_.choice.algorithm == "auto" && plan_.collectives.Seconds(shape).has_value();
    const std::vector<int> endpoints = EndpointsOf(ranks);
    const auto plans = plan_.library->Plans(shape, sim::PlacesOf(*plan_.topology, endpoints), plan_.choice);
    if (measured || !plans.ok() || plans->empty()) return at->second;
    absl::flat_hash_map<int, double> least = LoadsOf(plans->front(), endpoints, rank);
    for (size_t i = 1; i < plans->size(); ++i) {
      const absl::flat_hash_map<int, double> other = LoadsOf((*plans)[i], endpoints, rank);
      for (auto& [link, seconds] : least) {
        const auto found = other.find(link);
        seconds = found == other.end() ? 0 : std::min(seconds, found->second);
      }
    }
    for (const auto& [link, seconds] : least) at->second.push_back({link, seconds});
    return at->second;
  }
  // `from` and `to`: of the group; `sends`: whether the load beside the sender is asked for.
  const std::vector<Load>& LoadsOfMessage(const std::vector<int>& ranks, int from, int to, bool sends, Bytes bytes) {
    const auto size = static_cast<double>(bytes.value());
    const auto [at, fresh] = loads_.try_emplace({NumberOfMessages(ranks), -1 - from, size, to, sends ? 1 : 0});
    if (!fresh) return at->second;
    const int sender = ranks[static_cast<size_t>(from)], receiver = ranks[static_cast<size_t>(to)];
    const sim::Schedule schedule = ScheduleOfMessage(ranks, sender, receiver, size);
    for (const auto& [link, seconds] : LoadsOf(schedule, EndpointsOf({sender, receiver}), sends ? 0 : 1))
      at->second.push_back({link, seconds});
    return at->second;
  }
  absl::flat_hash_map<int, double> LoadsOf(const sim::Schedule& schedule, const std::vector<int>& endpoints, int rank) {
    absl::flat_hash_map<int, double> loads;
    if (schedule.loose) return loads;
    for (const sim::Phase& phase : schedule.phases) {
      for (const sim::Flow& f : phase.flows) {
        if (f.from != rank && f.to != rank) continue;
        const Pair pair{endpoints[static_cast<size_t>(f.from)], endpoints[static_cast<size_t>(f.to)], f.rail};
        for (const int link : LinksOfAllRoutes(pair))
          loads[link] += f.bytes * schedule.stretch / RatesOf(link).bandwidth.value();
      }
    }
    return loads;
  }

  using Key = std::tuple<int, int, double, int>;  // group, kind, bytes, root; -1 - from, to, bytes, group of a message

  // A rank asks for few groups, again and again: to compare them takes less time than to hash one of thousands of
  // ranks.
  int NumberOf(const std::vector<int>& ranks) {
    for (const auto& [known, number] : recent_)
      if (known == ranks) return number;
    const int number = numbers_.try_emplace(ranks, static_cast<int>(numbers_.size())).first->second;
    recent_[next_recent_++ % recent_.size()] = {ranks, number};
    return number;
  }
  bool AreCopies(const std::vector<int>& ranks) const { return copies_ && copies_->Among(ranks); }
  // Of a group whose messages are asked for: another number where they are copies.
  int NumberOfMessages(const std::vector<int>& ranks) { return 2 * NumberOf(ranks) + (AreCopies(ranks) ? 1 : 0); }
  std::vector<int> EndpointsOf(std::vector<int> ranks) const {
    if (plan_.endpoints.empty()) return ranks;
    for (int& rank : ranks) rank = plan_.endpoints[static_cast<size_t>(rank)];
    return ranks;
  }
  // A schedule that is refused runs in no simulation.
  double Fastest(const sim::CollectiveShape& shape, const std::vector<int>& endpoints) {
    const auto plans = plan_.library->Plans(shape, sim::PlacesOf(*plan_.topology, endpoints), plan_.choice);
    if (!plans.ok()) return 0;
    double least = std::numeric_limits<double>::infinity();
    for (const sim::Schedule& schedule : *plans) least = std::min(least, TimeOf(schedule, endpoints));
    return least;
  }
  // Until the first rank that takes part has ended its last phase.
  double TimeOf(const sim::Schedule& schedule, const std::vector<int>& endpoints) {
    if (schedule.loose) return 0;
    auto phases = static_cast<int>(schedule.phases.size());
    for (const int last : schedule.last_phase) phases = std::min(phases, last + 1);
    double seconds = 0;
    for (int p = 0; p < phases; ++p) {
      const sim::PhaseTimes::Part part{schedule.phases[static_cast<size_t>(p)], endpoints};
      seconds += router_.depends_on_load() ? LeastOfPhase(part) : phases_.Bound({&part, 1}).seconds;
    }
    return seconds * schedule.stretch;
  }
  // Where paths depend on the load: all routes of a pair have the same links at both ends, and a flow crosses those
  // whichever it takes. What all flows bring upon one of these links takes its time there, and a route's latency is at
  // least that of these links.
  double LeastOfPhase(const sim::PhaseTimes::Part& part) {
    const sim::Phase& phase = part.phase;
    const bool pipelined = sim::IsPipelined(phase);
    std::vector<double> routes(phase.flows.size(), 0);
    absl::flat_hash_map<int, double> bytes;  // by link
    double seconds = 0;
    for (size_t i = 0; i < phase.flows.size(); ++i) {
      const sim::Flow& f = phase.flows[i];
      const Pair pair{part.endpoints[static_cast<size_t>(f.from)], part.endpoints[static_cast<size_t>(f.to)], f.rail};
      for (const int link : LinksOfAllRoutes(pair)) {
        if (sim::RouteCounts(phase, pipelined, f)) routes[i] += RatesOf(link).latency.value();
        double& on_link = bytes[link];
        on_link += f.bytes;
        seconds = std::max(seconds, on_link / RatesOf(link).bandwidth.value());
      }
      if (std::isfinite(f.rate)) seconds = std::max(seconds, f.bytes / f.rate);
    }
    return seconds + sim::PhaseLatency(phase, routes, plan_.topology->alpha().value());
  }
  LinkRates RatesOf(int link) const { return plan_.topology->RatesOf(link); }
  const std::vector<int>& LinksOfAllRoutes(const Pair& pair) {
    const auto [at, fresh] = common_links_.try_emplace({pair.from, pair.to, pair.rail});
    if (!fresh) return at->second;
    const Topology& topology = *plan_.topology;
    if (topology.MinimalRoutes(pair) + topology.Detours(pair) == 1) {
      topology.Route(pair, 0, at->second);
      return at->second;
    }
    std::vector<int> tail;
    topology.MiddleOf(pair, at->second, tail);
    at->second.insert(at->second.end(), tail.begin(), tail.end());
    return at->second;
  }

  const SimulationPlan plan_;
  Router router_;
  sim::PhaseTimes phases_;
  double slowdown_ = 1;
  std::optional<RingCopies> copies_;
  absl::flat_hash_map<std::vector<int>, int> numbers_;
  std::array<std::pair<std::vector<int>, int>, 8> recent_;  // of numbers_; empty: none (no group is)
  size_t next_recent_ = 0;
  absl::flat_hash_map<Key, double> known_;
  absl::flat_hash_map<Key, Occupation> occupied_;
  absl::flat_hash_map<std::tuple<int, int, int>, std::vector<int>> common_links_;  // by pair
  std::map<Key, OfMessage> occupied_by_messages_;
  // By group, kind, bytes, root and rank; of a message by group, -1 - from, bytes, to and the side that is asked for.
  std::map<std::tuple<int, int, double, int, int>, std::vector<Load>> loads_;
  std::vector<Load> loads_now_;  // of several messages
};

}  // namespace

absl::StatusOr<std::unique_ptr<LeastTimes>> MakeLeastTimes(const spec::Spec& spec) {
  spec::Spec unfolded = spec;
  unfolded.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::OFF);  // classes are not needed
  absl::StatusOr<SimulationPlan> plan = MakePlan(unfolded);
  if (!plan.ok()) return plan.status();
  return std::make_unique<Times>(*std::move(plan));
}

}  // namespace twofold
