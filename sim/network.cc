#include "sim/network.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/strings.h"
#include "sim/at_work.h"
#include "sim/places.h"
#include "topologies/graph/no_route.h"

namespace twofold::sim {
namespace {

constexpr double kTogether = 1e-12;     // ends that differ by less, relative to their time, are equal
constexpr size_t kMostKept = 64 << 20;  // links of paths that are kept until their flows are solved

size_t FlowsOf(const Schedule& schedule) {
  size_t flows = 0;
  for (const Phase& phase : schedule.phases) flows += phase.flows.size();
  return flows;
}

// Its phases, those with the most bytes first.
std::vector<size_t> ByBytes(const Schedule& schedule) {
  std::vector<std::pair<double, size_t>> phases;  // bytes, negative; number
  for (const Phase& phase : schedule.phases) {
    const double bytes = std::accumulate(phase.flows.begin(), phase.flows.end(), 0.0,
                                         [](double sum, const Flow& f) { return sum + f.bytes; });
    phases.emplace_back(-bytes, phases.size());
  }
  std::sort(phases.begin(), phases.end());
  std::vector<size_t> numbers;
  for (const auto& [bytes, number] : phases) numbers.push_back(number);
  return numbers;
}

}  // namespace

Network::Network(Engine& engine, const Library& library, NetworkOptions options)
    : engine_(engine), library_(library), options_(std::move(options)), times_(engine.topology(), engine.router()) {}

Network::~Network() = default;

int Network::AddGroups(std::shared_ptr<const Ranks> groups) {
  groups_[next_groups_].ranks = std::move(groups);
  return next_groups_++;
}

const Network::Groups& Network::GroupsOf(int number) {
  Listed& listed = groups_.at(number);
  if (!listed.groups.empty()) return listed.groups;
  for (const std::vector<int>& ranks : *listed.ranks) {
    Group& group = listed.groups.emplace_back();
    for (int rank : ranks) group.endpoints.push_back(EndpointOf(rank));
    group.places = PlacesOf(engine_.topology(), group.endpoints);
  }
  return listed.groups;
}

bool Network::ShareNoLinks(int groups) {
  const Topology& topology = engine_.topology();
  absl::flat_hash_map<int, std::vector<const Group*>> by_node;
  for (const Group& group : GroupsOf(groups)) {
    const int node = topology.NodeOf(group.endpoints[0]);
    for (const int endpoint : group.endpoints) {
      if (topology.NodeOf(endpoint) != node) return false;
    }
    by_node[node].push_back(&group);
  }
  absl::flat_hash_map<int, const Group*> users;  // by link
  std::vector<int> route;
  for (const auto& [node, together] : by_node) {
    for (size_t g = 0; together.size() > 1 && g < together.size(); ++g) {
      for (const int from : together[g]->endpoints) {
        for (const int to : together[g]->endpoints) {
          if (from == to) continue;
          topology.Route({from, to}, topology.DefaultRoute({from, to}), route);
          for (const int link : route) {
            if (users.try_emplace(link, together[g]).first->second != together[g]) return false;
          }
        }
      }
    }
  }
  return true;
}

// Group numbers are not reused, so everything known about them is removed, too.
void Network::RemoveGroups(int number) {
  groups_.erase(number);
  auto of_these = [number](const auto& entry) { return std::get<0>(entry.first) == number; };
  absl::erase_if(known_, of_these);
  absl::erase_if(ways_, of_these);
  absl::erase_if(alone_, of_these);
}

std::optional<Network::Known> Network::ForAll(Schedule plan, const Choice& others, const CollectiveShape& shape,
                                              const Groups& groups) const {
  Known known;
  known.name = {plan.algorithm, plan.protocol};
  known.schedules.push_back(std::make_shared<Schedule>(std::move(plan)));
  for (size_t g = 1; g < groups.size(); ++g) {
    size_t like = 0;
    while (like < g && groups[like].places != groups[g].places) ++like;
    if (like == g) {
      absl::StatusOr<Schedule> own = library_.Plan(shape, groups[g].places, others);
      if (!own.ok()) return std::nullopt;
      known.schedules.push_back(std::make_shared<Schedule>(*std::move(own)));
    } else {
      known.schedules.push_back(known.schedules[like]);
    }
  }
  return known;
}

// A collective that is considered, and how far it is known.
struct Network::Candidate {
  Known known;
  size_t place;                     // among the plans: of equals the first is taken
  std::vector<size_t> phases = {};  // those with the most bytes first: they show soonest that it takes long
  size_t bounded = 0, solved = 0;   // of `phases`
  double seconds = 0;               // alone on the network; at least, if not `done`
  bool done = false;
};

// To solve all candidates would take long. The one that may be the fastest goes on, until one is known that no other
// can beat.
Network::Known Network::Choose(int number, const CollectiveShape& shape, const Groups& groups) {
  const auto refuse = [](const absl::Status& status) {
    throw RankFailure(RankFailure::Kind::kOther, 0, StrCat("fabric.simulated.algorithm: ", status.message()));
  };
  const Topology& topology = engine_.topology();
  absl::StatusOr<std::vector<Schedule>> plans = library_.Plans(shape, groups[0].places, options_.choice);
  if (!plans.ok()) refuse(plans.status());
  if (topology.symmetric()) plans->resize(1);  // estimates are exact there
  if (plans->size() == 1) {
    std::optional<Known> known = ForAll(std::move(plans->front()), options_.choice, shape, groups);
    if (!known) refuse(library_.Plan(shape, groups.back().places, options_.choice).status());
    return *std::move(known);
  }
  std::vector<Candidate> candidates;
  for (Schedule& plan : *plans) {
    const Choice same{.algorithm = plan.algorithm};
    if (std::optional<Known> known = ForAll(std::move(plan), same, shape, groups))
      candidates.push_back({*std::move(known), candidates.size()});
  }
  if (candidates.empty())
    refuse(absl::UnimplementedError(
        StrCat("no algorithm supports ", KindName(shape.kind), " for all groups of ", shape.ranks, " ranks")));
  double least = std::numeric_limits<double>::infinity();
  for (Candidate* next = &candidates[0]; next != nullptr;) {
    next = nullptr;
    for (Candidate& c : candidates) {
      if (c.done || c.seconds >= least * (1 + 2 * kTogether)) continue;
      if (next == nullptr || c.seconds < next->seconds) next = &c;
    }
    if (next == nullptr) break;
    Advance(number, shape, groups, *next);
    if (next->done) least = std::min(least, next->seconds);
  }
  const auto soonest = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate& c) { return c.done && c.seconds <= least * (1 + kTogether); });
  return std::move(soonest->known);
}

Network::AloneKey Network::AloneKeyOf(int number, const CollectiveShape& shape, const Known& known) {
  const Schedule& schedule = *known.schedules[0];
  return {number, shape.kind, shape.root, schedule.algorithm, schedule.phases.size(), FlowsOf(schedule)};
}

// A step towards the candidate's time: the bound of one phase, or the solution of one. Ranks choose without knowing
// what other groups do, so that folding changes nothing: only the first group counts. If the numbers of an algorithm's
// phases and flows are the same as for another size, only the bytes differ, and the bottleneck is the same.
void Network::Advance(int number, const CollectiveShape& shape, const Groups& groups, Candidate& candidate) {
  const Schedule& schedule = *candidate.known.schedules[0];
  std::vector<size_t>& phases = candidate.phases;
  if (candidate.bounded == 0) {
    if (const auto found = alone_.find(AloneKeyOf(number, shape, candidate.known)); found != alone_.end()) {
      candidate.seconds = found->second.latency + found->second.per_byte * shape.bytes;
      candidate.done = true;
      return;
    }
    phases = ByBytes(schedule);
  }
  if (candidate.bounded < phases.size()) {
    candidate.seconds += TimeAlone(phases[candidate.bounded++], groups, false, candidate.known).seconds;
  } else if (candidate.solved < phases.size()) {
    const size_t phase = phases[candidate.solved++];
    const double bound = candidate.known.times[phase]->seconds;
    candidate.seconds += TimeAlone(phase, groups, true, candidate.known).seconds - bound;
  }
  if (candidate.bounded < phases.size()) return;
  while (candidate.solved < phases.size() && candidate.known.times[phases[candidate.solved]]->exact) ++candidate.solved;
  candidate.done = candidate.solved == phases.size();
  if (!candidate.done) return;
  double latency = 0, seconds = 0;
  for (const std::optional<PhaseTimes::Time>& time : candidate.known.times)
    latency += time->latency, seconds += time->seconds;
  candidate.seconds = seconds;
  const bool scales = shape.bytes > 0 && shape.kind != Communication::kAllToAllV && !engine_.router().depends_on_load();
  if (scales) alone_[AloneKeyOf(number, shape, candidate.known)] = {latency, (seconds - latency) / shape.bytes};
}

Network::Known Network::Make(int number, const CollectiveShape& shape, const Groups& groups) try {
  const AtWork at_work(Part::kCollectives);
  ++planned_;
  kept_links_ = 0;
  Known known = Choose(number, shape, groups);
  const auto measured = options_.choice.algorithm == "auto" ? options_.measured.Seconds(shape) : std::nullopt;
  const bool useful = options_.closed_forms && groups_.size() == 1 && !messages_;  // else it may meet others
  if (measured || useful) known.seconds = ClosedForm(known, groups);
  if (measured) {
    for (const auto& schedule : known.schedules) schedule->stretch = known.seconds > 0 ? *measured / known.seconds : 1;
    known.seconds = *measured;
    known.name = {"measured", ""};
  }
  known.times.clear();
  return known;
} catch (const NoRoute& none) {
  throw RankFailure(RankFailure::Kind::kOther, 0, none.what());
}

// The times of the first group's phases alone on the network are kept: they are asked for more than once.
const PhaseTimes::Time& Network::TimeAlone(size_t phase, const Groups& groups, bool exact, Known& known) {
  const Schedule& schedule = *known.schedules[0];
  known.times.resize(schedule.phases.size());
  const PhaseTimes::Part part{schedule.phases[phase], groups[0].endpoints};
  std::optional<PhaseTimes::Time>& time = known.times[phase];
  if (!time) {
    time = times_.Bound({&part, 1});
    if (time->paths != nullptr) {
      kept_links_ += time->paths->links();
      if (!exact && kept_links_ > kMostKept) time->paths = nullptr;
    }
  }
  if (exact) times_.Solve({&part, 1}, *time);
  return *time;
}

double Network::ClosedForm(Known& known, const Groups& groups) {
  const Schedule& schedule = *known.schedules[0];
  for (const auto& other : known.schedules) {
    if (other->phases.size() != schedule.phases.size() || other->loose) return -1;
    for (int last : other->last_phase) {
      if (last != schedule.last_phase[0]) return -1;
    }
  }
  double seconds = 0;
  for (size_t phase = 0; phase < schedule.phases.size(); ++phase) {
    if (groups.size() == 1) {
      seconds += TimeAlone(phase, groups, true, known).seconds;
      continue;
    }
    std::vector<PhaseTimes::Part> parts;
    for (size_t g = 0; g < groups.size(); ++g)
      parts.push_back({known.schedules[g]->phases[phase], groups[g].endpoints});
    PhaseTimes::Time time = times_.Bound(parts);
    times_.Solve(parts, time);
    if (!time.together) return -1;
    seconds += time.seconds;
  }
  return seconds;
}

Network::Name Network::Collective(int number, const CollectiveShape& shape, double start, Done done) {
  const Groups& groups = GroupsOf(number);
  const Key key(number, shape.kind, shape.bytes, shape.root);
  const bool alone = options_.closed_forms && Alone(), reusable = shape.kind != Communication::kAllToAllV;
  Known& entry = known_[key];
  if (!reusable) entry = {};
  if (entry.schedules.empty() && entry.course == nullptr && !(alone && entry.seconds >= 0))
    entry = Make(number, shape, groups);
  const Name name = entry.name;
  if (alone && entry.seconds >= 0) {  // keeps only the time, because schedules are large
    entry.schedules.clear();
    done({start + entry.seconds}, 0);
    return name;
  }
  if (engine_.solves_flows() && entry.course == nullptr) entry.course = Chart(entry, groups), entry.schedules.clear();
  const Known known = entry;  // a copy: actors that run while this one starts its flows may add to known_
  Flow(known, groups, start,
       [this, key, alone, reusable, start, done = std::move(done)](const std::vector<double>& finish, double apart) {
         const auto [first, last] = std::minmax_element(finish.begin(), finish.end());
         if (alone && reusable && *first == *last && apart == 0) known_[key].seconds = *last - start;
         done(finish, apart);
       });
  return name;
}

std::shared_ptr<const Engine::Course> Network::Chart(const Known& known, const Groups& groups) try {
  const AtWork at_work(Part::kCollectives);
  std::vector<Engine::Copy> copies;
  for (size_t g = 0; g < groups.size(); ++g) copies.push_back({known.schedules[g], groups[g].endpoints});
  return engine_.Chart(copies);
} catch (const NoRoute& none) {
  throw RankFailure(RankFailure::Kind::kOther, 0, none.what());
}

void Network::Flow(const Known& known, const Groups& groups, double start, Done done) {
  if (known.course != nullptr) return engine_.Run(known.course, start, std::move(done));
  struct All {
    size_t left;
    std::vector<std::vector<double>> finish;
    Done done;
  };
  const auto all =
      std::make_shared<All>(All{groups.size(), std::vector<std::vector<double>>(groups.size()), std::move(done)});
  for (size_t g = 0; g < groups.size(); ++g) {
    engine_.Transfer(known.schedules[g], groups[g].endpoints, start, [all, g](const std::vector<double>& finish) {
      all->finish[g] = finish;
      if (--all->left > 0) return;
      std::vector<double> everyone;
      for (const auto& group : all->finish) everyone.insert(everyone.end(), group.begin(), group.end());
      all->done(everyone, 0);
    });
  }
}

Network::Way Network::MakeWay(std::vector<std::vector<int>> pairs, double bytes) {
  const AtWork at_work(Part::kCollectives);
  ++planned_;
  Way way{.endpoints = std::move(pairs), .schedules = {}};
  std::vector<std::pair<Places, std::shared_ptr<const Schedule>>> known;
  for (const std::vector<int>& pair : way.endpoints) {
    Places places = PlacesOf(engine_.topology(), pair);
    auto like = std::find_if(known.begin(), known.end(), [&places](const auto& k) { return k.first == places; });
    if (like == known.end()) {
      auto schedule = std::make_shared<const Schedule>(library_.Message(bytes, places));
      like = known.insert(like, {std::move(places), std::move(schedule)});
    }
    way.schedules.push_back(like->second);
  }
  way.name = {way.schedules[0]->algorithm, way.schedules[0]->protocol};
  if (!engine_.solves_flows()) return way;
  std::vector<Engine::Copy> copies;
  for (size_t m = 0; m < way.schedules.size(); ++m) copies.push_back({way.schedules[m], way.endpoints[m]});
  way.course = engine_.Chart(copies);
  return way;
}

Network::Name Network::Message(int number, int from, int to, double bytes, double start, Ended ended) {
  return Send({number, from, to, bytes}, start, std::move(ended));
}

Network::Name Network::Shift(int number, int places, double bytes, double start, Ended ended) {
  return Send({number, -1, places, bytes}, start, std::move(ended));
}

Network::Name Network::Send(const WayKey& key, double start, Ended ended) {
  messages_ = true;
  std::shared_ptr<const Way>& known = ways_[key];
  if (known == nullptr) try {
      const auto [number, from, to, bytes] = key;
      std::vector<std::vector<int>> pairs;
      for (const Group& group : GroupsOf(number)) {
        const std::vector<int>& all = group.endpoints;
        if (from >= 0) {
          pairs.push_back({all[static_cast<size_t>(from)], all[static_cast<size_t>(to)]});
          continue;
        }
        for (size_t r = 0; r < all.size(); ++r)
          pairs.push_back({all[r], all[(r + static_cast<size_t>(to)) % all.size()]});
      }
      known = std::make_shared<const Way>(MakeWay(std::move(pairs), bytes));
    } catch (const NoRoute& none) {
      throw RankFailure(RankFailure::Kind::kOther, 0, none.what());
    }
  const std::shared_ptr<const Way> way = known;  // actors that run while this one starts its flows may add to ways_
  if (way->course != nullptr) {
    engine_.Run(way->course, start, [ended = std::move(ended)](const std::vector<double>& finish, double apart) {
      for (size_t place : {size_t{0}, size_t{1}}) {
        double first = finish[finish.size() > 1 ? place : 0], last = first;
        for (size_t i = place; i < finish.size(); i += 2)
          first = std::min(first, finish[i]), last = std::max(last, finish[i]);
        ended(place, first - apart, last);
      }
    });
    return way->name;
  }
  struct All {
    std::array<size_t, 2> left;
    std::array<double, 2> first;
    Ended ended;
  };
  const size_t copies = way->schedules.size();
  const double never = std::numeric_limits<double>::infinity();
  const auto all = std::make_shared<All>(All{{copies, copies}, {never, never}, std::move(ended)});
  for (size_t g = 0; g < copies; ++g) {
    engine_.Transfer(
        way->schedules[g], way->endpoints[g], start, [](const std::vector<double>&) {},
        [all](size_t place, double time) {
          all->first[place] = std::min(all->first[place], time);
          if (--all->left[place] == 0) all->ended(place, all->first[place], time);
        });
  }
  return way->name;
}

}  // namespace twofold::sim
