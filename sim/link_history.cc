#include "sim/link_history.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "absl/strings/str_format.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "sim/network_picture.h"

namespace twofold::sim {
namespace {

constexpr size_t kRows = 64;
constexpr double kSame = 1e-6;  // of a link's bytes: bins that differ by less are equal
constexpr double kRest = 1e-9;  // of a link's bytes: less is rounding

std::string KindOf(const Topology& topology, const Link& link) {
  if (link.from < 0 || link.to < 0) return std::string(MediumName(link.medium));
  const auto name = [&](int vertex) { return VertexKind(topology.vertices()[static_cast<size_t>(vertex)]); };
  return StrCat(name(link.from), " to ", name(link.to));
}

}  // namespace

// ---- Bins ----

void TimeBins::Add(double from, double to, double bytes) {
  while (to > width_ * static_cast<double>(kMost)) Widen(2 * width_);
  const auto bin_at = [this](double time) { return std::min(kMost - 1, static_cast<size_t>(time / width_)); };
  const size_t first = bin_at(from);
  if (bytes_.size() <= first) bytes_.resize(first + 1);
  double left = bytes;
  for (size_t bin = first; to > from; ++bin) {
    if (bytes_.size() <= bin) bytes_.resize(bin + 1);
    const double end = static_cast<double>(bin + 1) * width_;
    if (end >= to || bin + 1 == kMost) {
      bytes_[bin] += left;
      return;
    }
    const double here = bytes * std::max(0.0, end - std::max(from, end - width_)) / (to - from);
    bytes_[bin] += here, left -= here;
  }
  bytes_[first] += left;
}

void TimeBins::Widen(double width) {
  for (; width_ < width; width_ *= 2) {
    const size_t half = (bytes_.size() + 1) / 2;
    for (size_t b = 0; b < half; ++b) bytes_[b] = bytes_[2 * b] + (2 * b + 1 < bytes_.size() ? bytes_[2 * b + 1] : 0);
    bytes_.resize(half);
  }
}

void TimeBins::Add(const TimeBins& other) {
  TimeBins more = other;
  Widen(more.width_), more.Widen(width_);
  bytes_.resize(std::max(bytes_.size(), more.bytes_.size()));
  for (size_t b = 0; b < more.bytes_.size(); ++b) bytes_[b] += more.bytes_[b];
}

double TimeBins::Sum() const { return std::accumulate(bytes_.begin(), bytes_.end(), 0.0); }

// ---- Recording ----

void LinkHistory::Begin(double time, double now) {
  if (!on()) origin_ = now;
  begin_ = std::min(begin_, std::max(time, now));
}

void LinkHistory::Add(TimeBins& bins, double from, double to, double rate) const {
  from = std::max(from, begin_);
  if (on() && to > from) bins.Add(from - origin_, to - origin_, rate * (to - from));
}

void LinkHistory::Carry(const std::vector<int>& links, double bytes, double from, double to, int use) {
  if (!on() || to < begin_) return;
  const bool whole = from >= begin_;
  const double start = std::max(from, begin_);
  const double counted = whole ? bytes : bytes * (to - start) / (to - from);
  for (const int link : links) {
    single_[link].Add(start - origin_, to - origin_, counted);
    if (!whole) continue;
    auto& [flows, sum] = carried_[{use, link}];
    ++flows, sum += bytes;
  }
}

int LinkHistory::UseOf(std::string_view operation, const std::string& group) {
  const std::pair<std::string, std::string> use{operation, group};
  const auto known = std::find(uses_.begin(), uses_.end(), use);
  if (known != uses_.end()) return static_cast<int>(known - uses_.begin()) + 1;
  uses_.push_back(use);
  return static_cast<int>(uses_.size());
}

void LinkHistory::Began(int use, std::shared_ptr<const Shares> flows) {
  const auto [at, fresh] = began_at_.try_emplace({use, flows.get()}, began_.size());
  if (fresh) began_.push_back({use, std::move(flows), 0});
  ++began_[at->second].times;
}

// Links are of one class as long as nothing has told them apart.
void LinkHistory::Take(const Zeros<int>& zone_of, std::vector<TimeBins> zones) {
  absl::flat_hash_map<std::pair<int, int>, int> numbers;
  std::vector<TimeBins> classes = {{}};
  for (size_t l = 0; l < class_of_.size(); ++l) {
    const std::pair<int, int> both{class_of_[l], zone_of[l]};
    if (both == std::pair(0, 0)) continue;
    const auto [known, fresh] = numbers.try_emplace(both, static_cast<int>(classes.size()));
    if (fresh) {
      classes.push_back(classes_[static_cast<size_t>(both.first)]);
      if (both.second > 0) classes.back().Add(zones[static_cast<size_t>(both.second - 1)]);
    }
    class_of_[l] = known->second;
  }
  classes_ = std::move(classes);
}

// ---- What came of it ----

struct LinkHistory::Candidate {
  int link;  // the first of them
  int64_t links;
  TimeBins bins;
  double seconds;  // that its bytes take at its bandwidth
};

// Links that carried something, those that carried the same together.
std::vector<LinkHistory::Candidate> LinkHistory::Candidates() const {
  // By class, or single link; and by kind, since what goes up goes down, too.
  std::map<std::tuple<int, int, std::string>, Candidate> by_class;
  for (size_t l = 0; l < class_of_.size(); ++l) {
    const int link = static_cast<int>(l);
    const auto single = single_.find(link);
    const bool own = single != single_.end();
    if (class_of_[l] == 0 && !own) continue;
    const auto [at, fresh] = by_class.try_emplace(
        {class_of_[l], own ? link : -1, KindOf(topology_, topology_.links()[l])}, Candidate{link, 0, {}, 0});
    ++at->second.links;
    if (!fresh) continue;
    at->second.bins = classes_[static_cast<size_t>(class_of_[l])];
    if (own) at->second.bins.Add(single->second);
  }
  double width = 0;
  for (const auto& [of, c] : by_class) width = std::max(width, c.bins.Sum() > 0 ? c.bins.width() : 0);
  using Key = std::pair<std::pair<std::string, double>, std::vector<int64_t>>;
  std::map<Key, size_t> alike;
  std::vector<Candidate> all;
  for (auto& [of, c] : by_class) {
    const double sum = c.bins.Sum();
    if (sum <= 0) continue;
    c.bins.Widen(width);
    const Link& link = topology_.links()[static_cast<size_t>(c.link)];
    const double bandwidth = link.bandwidth.value();
    c.seconds = sum / bandwidth;
    Key key{{KindOf(topology_, link), bandwidth}, {std::llround(std::log(sum) / kSame)}};
    for (const double bytes : c.bins.bytes()) key.second.push_back(std::llround(bytes / sum / kSame));
    const auto [known, fresh] = alike.try_emplace(std::move(key), all.size());
    if (fresh)
      all.push_back(std::move(c));
    else
      all[known->second].links += c.links, all[known->second].link = std::min(all[known->second].link, c.link);
  }
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(-a.seconds, a.link) < std::pair(-b.seconds, b.link);
  });
  return all;
}

// `links`: of each row one.
void LinkHistory::AddFlows(const std::vector<int>& links, std::vector<LinkLoads::Row>& rows) const {
  absl::flat_hash_map<int, size_t> row_of;
  for (size_t r = 0; r < links.size(); ++r) row_of[links[r]] = r;
  std::vector<std::map<int, LinkLoads::Flow>> flows(links.size());  // by use
  const auto add = [&](size_t row, int use, int64_t phases, double bytes) {
    LinkLoads::Flow& flow = flows[row][use];
    if (use > 0) std::tie(flow.operation, flow.group) = uses_[static_cast<size_t>(use - 1)];
    flow.phases += phases, flow.bytes += bytes;
  };
  for (const Begun& begun : began_) {
    for (const Share& share : begun.flows->Get()) {
      for (const int link : *share.links) {
        if (const auto row = row_of.find(link); row != row_of.end())
          add(row->second, begun.use, begun.times, share.bytes * static_cast<double>(begun.times));
      }
    }
  }
  for (const auto& [of, sums] : carried_) {
    if (const auto row = row_of.find(of.second); row != row_of.end())
      add(row->second, of.first, sums.first, sums.second);
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    double rest = std::accumulate(rows[r].bytes.begin(), rows[r].bytes.end(), 0.0);
    const double all = rest;
    for (const auto& [use, flow] : flows[r]) rest -= flow.bytes, rows[r].flows.push_back(flow);
    if (rest > kRest * all) rows[r].flows.push_back({.operation = "", .group = "", .phases = 0, .bytes = rest});
    std::sort(rows[r].flows.begin(), rows[r].flows.end(), [](const LinkLoads::Flow& a, const LinkLoads::Flow& b) {
      return std::tie(b.bytes, a.operation, a.group) < std::tie(a.bytes, b.operation, b.group);
    });
  }
}

// As the rows: in bins of `width`, without the first ones, which are `empty`.
network::Pictures LinkHistory::Pictures(int node, double begin, double width, size_t empty) const {
  absl::flat_hash_map<std::pair<int, int>, int> numbers = {{{0, -1}, 0}};
  std::vector<std::pair<int, int>> of_number = {{0, -1}};  // a class, and a link that carried more than it, or -1
  std::vector<int> number_of(class_of_.size());
  for (size_t l = 0; l < class_of_.size(); ++l) {
    const int link = static_cast<int>(l);
    const std::pair<int, int> of{class_of_[l], single_.contains(link) ? link : -1};
    const auto [known, fresh] = numbers.try_emplace(of, static_cast<int>(of_number.size()));
    if (fresh) of_number.push_back(of);
    number_of[l] = known->second;
  }
  const auto bytes_of = [&](int number) {
    const auto& [of_class, link] = of_number[static_cast<size_t>(number)];
    TimeBins bins = classes_[static_cast<size_t>(of_class)];
    if (link >= 0) bins.Add(single_.at(link));
    bins.Widen(width);
    const size_t left_out = std::min(empty, bins.bytes().size());
    return std::vector<double>(bins.bytes().begin() + static_cast<std::ptrdiff_t>(left_out), bins.bytes().end());
  };
  return PicturesOf(
      topology_, node, begin, width, [&](int link) { return number_of[static_cast<size_t>(link)]; }, bytes_of);
}

LinkLoads LinkHistory::Loads() const {
  LinkLoads loads;
  std::vector<Candidate> all = Candidates();
  int64_t used = 0;
  for (const Candidate& c : all) used += c.links;
  loads.idle = static_cast<int64_t>(class_of_.size()) - used;
  size_t empty = TimeBins::kMost;  // bins at the begin without bytes of any link
  for (const Candidate& c : all) {
    const auto first = std::find_if(c.bins.bytes().begin(), c.bins.bytes().end(), [](double b) { return b != 0; });
    empty = std::min(empty, static_cast<size_t>(first - c.bins.bytes().begin()));
  }
  std::vector<int> links;
  for (size_t i = 0; i < all.size(); ++i) {
    const Candidate& c = all[i];
    if (i >= kRows) {
      loads.left_out += c.links;
      continue;
    }
    const Link& link = topology_.links()[static_cast<size_t>(c.link)];
    loads.width = c.bins.width();
    loads.rows.push_back(
        {.link = link.name,
         .kind = KindOf(topology_, link),
         .links = c.links,
         .bandwidth = link.bandwidth.value(),
         .bytes = {c.bins.bytes().begin() + static_cast<std::ptrdiff_t>(empty), c.bins.bytes().end()}});
    links.push_back(c.link);
  }
  AddFlows(links, loads.rows);
  if (all.empty()) return loads;
  loads.begin = origin_ + static_cast<double>(empty) * loads.width;
  const int end = topology_.links()[static_cast<size_t>(links[0])].from;
  const int node = end < 0 ? -1 : topology_.vertices()[static_cast<size_t>(end)].node;
  loads.pictures = Pictures(std::max(node, 0), loads.begin, loads.width, empty);
  return loads;
}

std::vector<std::string> LinkHistory::NotesOn(const LinkLoads& loads) const {
  std::vector<std::string> notes;
  if (loads.left_out > 0)
    notes.push_back(StrCat("loads of links leave out ", Counted(loads.left_out, "link"),
                           ", which carry less than those that are told"));
  if (stretched_ > 1)
    notes.push_back(absl::StrFormat(
        "loads of links count up to %.3g times the bytes of collectives, as far as these take the times that were "
        "measured: their flows are made so large that they take as long",
        stretched_));
  if (unrecorded_ > 0)
    notes.push_back(StrCat("loads of links leave out ", Counted(unrecorded_, "collective"),
                           ", whose time is known without their flows"));
  return notes;
}

}  // namespace twofold::sim
