#include "sim/network.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "sim/at_work.h"
#include "sim/collectives/copy_engines.h"
#include "sim/places.h"
#include "topologies/graph/no_route.h"

namespace twofold::sim {
namespace {

constexpr size_t kMostPairs = 16 << 20;  // pairs of ranks of which the flows of all_to_all_v are kept

}  // namespace

Network::Network(Engine& engine, const Library& library, NetworkOptions options)
    : engine_(engine), library_(library), options_(std::move(options)), times_(engine.topology(), engine.router()) {}

Network::~Network() = default;

int Network::AddGroups(std::shared_ptr<const Ranks> groups, std::string name) {
  groups_[next_groups_] = {.ranks = std::move(groups), .name = std::move(name)};
  return next_groups_++;
}

const Network::Groups& Network::GroupsOf(int number) {
  Listed& listed = groups_.at(number);
  if (listed.groups != nullptr) return *listed.groups;
  const auto like = std::find_if(groups_.begin(), groups_.end(), [&listed](const auto& other) {
    return other.second.groups != nullptr && *other.second.ranks == *listed.ranks;
  });
  if (like != groups_.end()) return *(listed.groups = like->second.groups);
  auto groups = std::make_shared<Groups>();
  for (const std::vector<int>& ranks : *listed.ranks) {
    Group& group = groups->emplace_back();
    group.endpoints.reserve(ranks.size());
    for (int rank : ranks) group.endpoints.push_back(EndpointOf(rank));
    group.places = PlacesOf(engine_.topology(), group.endpoints);
  }
  return *(listed.groups = std::move(groups));
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

int Network::MatrixNumber(const CollectiveShape& shape, const Groups& groups) {
  const auto found = matrices_.find(shape.matrix);
  if (found != matrices_.end()) return found->second;
  const size_t pairs = groups.size() * shape.matrix.size() * shape.matrix.size();
  if (pairs_of_matrices_ + pairs > kMostPairs) {
    matrices_.clear(), pairs_of_matrices_ = 0;
    absl::erase_if(known_, [](const auto& entry) {
      return std::get<1>(entry.first) == static_cast<int>(Communication::kAllToAllV);
    });
  }
  pairs_of_matrices_ += pairs;
  return matrices_[shape.matrix] = next_matrix_++;
}

Network::Key Network::KeyOf(int number, const CollectiveShape& shape, const Groups& groups) {
  const bool uneven = shape.kind == Communication::kAllToAllV;
  return {number, shape.kind, shape.bytes,
          uneven ? MatrixNumber(shape, groups) : 2 * shape.root + (shape.follows ? 1 : 0)};
}

std::shared_ptr<const Schedule> Network::ScheduleOf(int number, const CollectiveShape& shape) {
  const Groups& groups = GroupsOf(number);
  Known& entry = known_[KeyOf(number, shape, groups)];
  if (entry.kept == nullptr) entry = Make(number, shape, groups);
  return entry.kept;
}

std::shared_ptr<const Schedule> Network::ScheduleOf(int number, int from, int to, double bytes) {
  return WayOf({number, from, to, bytes})->schedules[0];
}

Network::Name Network::Collective(int number, const CollectiveShape& shape, double start, Done done) {
  const Groups& groups = GroupsOf(number);
  const Key key = KeyOf(number, shape, groups);
  const bool alone = options_.closed_forms && Alone();
  Known& entry = known_[key];
  if (entry.schedules.empty() && entry.course == nullptr && !(alone && entry.seconds >= 0))
    entry = Make(number, shape, groups);
  const Name name = entry.name;
  if (alone && entry.seconds >= 0) {  // keeps only the time, because schedules are large
    if (LinkHistory* const links = engine_.links(); links != nullptr && links->RecordsAt(start))
      RecordAlone(number, shape, groups, start, entry);
    entry.schedules.clear();
    done({start + entry.seconds}, 0);
    return name;
  }
  if (engine_.solves_flows() && entry.course == nullptr) {
    if (engine_.links() != nullptr) engine_.links()->Stretched(entry.schedules[0]->stretch);
    entry.course = Chart(entry, groups), entry.schedules.clear();
  }
  const Known known = entry;  // a copy: actors that run while this one starts its flows may add to known_
  Flow(
      known, groups, start,
      [this, key, alone, start, done = std::move(done)](const std::vector<double>& finish, double apart) {
        const auto [first, last] = std::minmax_element(finish.begin(), finish.end());
        if (alone && *first == *last && apart == 0) known_[key].seconds = *last - start;
        done(finish, apart);
      },
      UseOf(number, KindName(shape.kind)));
  return name;
}

int Network::UseOf(int groups, std::string_view operation) {
  LinkHistory* const links = engine_.links();
  return links != nullptr ? links->UseOf(operation, groups_.at(groups).name) : 0;
}

// The time is known without flows; the history of links needs them.
void Network::RecordAlone(int number, const CollectiveShape& shape, const Groups& groups, double start, Known& entry) {
  if (!engine_.solves_flows()) return engine_.links()->Unrecorded();
  if (entry.course == nullptr) {
    const Known made = entry.schedules.empty() ? Make(number, shape, groups) : entry;
    engine_.links()->Stretched(made.schedules[0]->stretch);
    entry.course = Chart(made, groups);
  }
  engine_.Record(*entry.course, start, UseOf(number, KindName(shape.kind)));
}

Network::Occupation Network::OccupationOf(const Schedule& schedule, const Places& places) {
  return {EstimateSeconds(schedule, places), schedule.multiprocessors, BusiestBytes(schedule)};
}

Network::Occupation Network::Occupies(int number, const CollectiveShape& shape) {
  const Groups& groups = GroupsOf(number);
  Known& entry = known_[{number, shape.kind, shape.bytes, 2 * shape.root + (shape.follows ? 1 : 0)}];
  if (!entry.occupation) {
    occupations_ = true;
    Known made = Make(number, shape, groups);
    if (entry.name.algorithm.empty())
      entry = std::move(made);
    else
      entry.occupation = made.occupation;
  }
  return *entry.occupation;
}

std::shared_ptr<const Engine::Course> Network::Chart(const Known& known, const Groups& groups) try {
  const AtWork at_work(Part::kCollectives);
  if (auto course = ChartUnsolved(known, groups)) return course;
  std::vector<Engine::Copy> copies;
  for (size_t g = 0; g < groups.size(); ++g) copies.push_back({known.schedules[g], groups[g].endpoints});
  return engine_.Chart(copies);
} catch (const NoRoute& none) {
  throw RankFailure(RankFailure::Kind::kOther, 0, none.what());
}

// Null: the flows are solved now, since no closed form says how long they take alone.
std::shared_ptr<const Engine::Course> Network::ChartUnsolved(const Known& known, const Groups& groups) {
  if (!options_.closed_forms || groups.size() != 1 || !engine_.MayWait(*known.schedules[0])) return nullptr;
  const Schedule& schedule = *known.schedules[0];
  std::vector<Engine::Alone> alone;
  for (const Phase& phase : schedule.phases) {
    const PhaseTimes::Part part{phase, groups[0].endpoints};
    const PhaseTimes::Time time = times_.Bound({&part, 1});
    if (!time.exact) return nullptr;
    alone.push_back({time.latency * schedule.stretch, (time.seconds - time.latency) * schedule.stretch, time.most});
  }
  return engine_.ChartUnsolved({known.schedules[0], groups[0].endpoints}, alone);
}

void Network::Flow(const Known& known, const Groups& groups, double start, Done done, int use) {
  if (known.course != nullptr) return engine_.Run(known.course, start, std::move(done), use);
  struct All {
    size_t left;
    std::vector<std::vector<double>> finish;
    Done done;
  };
  const auto all =
      std::make_shared<All>(All{groups.size(), std::vector<std::vector<double>>(groups.size()), std::move(done)});
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto finished = [all, g](const std::vector<double>& finish) {
      all->finish[g] = finish;
      if (--all->left > 0) return;
      std::vector<double> everyone;
      for (const auto& group : all->finish) everyone.insert(everyone.end(), group.begin(), group.end());
      all->done(everyone, 0);
    };
    engine_.Transfer(known.schedules[g], groups[g].endpoints, start, finished, nullptr, use);
  }
}

Network::Way Network::MakeWay(int number, std::vector<std::vector<int>> pairs, double bytes) {
  const AtWork at_work(Part::kCollectives);
  ++planned_;
  Way way{.endpoints = std::move(pairs), .schedules = {}};
  const bool copied = options_.copied && options_.copied(groups_.at(number).ranks->front());
  std::vector<std::pair<Places, std::shared_ptr<const Schedule>>> known;
  for (const std::vector<int>& pair : way.endpoints) {
    Places places = PlacesOf(engine_.topology(), pair);
    places.group = &GroupsOf(number)[0].places;
    auto like = std::find_if(known.begin(), known.end(), [&places](const auto& k) { return k.first == places; });
    if (like == known.end()) {
      auto schedule = std::make_shared<const Schedule>(copied && MayCopy(places) ? CopyByEngine(bytes)
                                                                                 : library_.Message(bytes, places));
      like = known.insert(like, {std::move(places), std::move(schedule)});
    }
    way.schedules.push_back(like->second);
  }
  way.name = {way.schedules[0]->algorithm, way.schedules[0]->protocol};
  way.occupation = OccupationOf(*way.schedules[0], known[0].first);
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

std::shared_ptr<const Network::Way> Network::WayOf(const WayKey& key) {
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
      known = std::make_shared<const Way>(MakeWay(number, std::move(pairs), bytes));
    } catch (const NoRoute& none) {
      throw RankFailure(RankFailure::Kind::kOther, 0, none.what());
    }
  return known;
}

Network::Occupation Network::MessageOccupies(int groups, int from, int to, double bytes) {
  return WayOf({groups, from, to, bytes})->occupation;
}

Network::Name Network::Send(const WayKey& key, double start, Ended ended) {
  messages_ = true;
  const int use = UseOf(std::get<0>(key), "send");
  const std::shared_ptr<const Way> way = WayOf(key);  // kept: actors that run meanwhile may add to ways_
  if (way->course != nullptr) {
    engine_.Run(
        way->course, start,
        [ended = std::move(ended)](const std::vector<double>& finish, double apart) {
          for (size_t place : {size_t{0}, size_t{1}}) {
            double first = finish[finish.size() > 1 ? place : 0], last = first;
            for (size_t i = place; i < finish.size(); i += 2)
              first = std::min(first, finish[i]), last = std::max(last, finish[i]);
            ended(place, first - apart, last);
          }
        },
        use);
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
        },
        use);
  }
  return way->name;
}

}  // namespace twofold::sim
