#include "sim/sharing/flow_classifier.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/check.h"
#include "sim/sharing/hashes.h"

namespace twofold::sim {
namespace {

uint64_t BitsOf(double x) { return std::bit_cast<uint64_t>(x); }

// Numbers for hashes, in the order in which they first occur. Neighbours are often equal.
class Numbers {
 public:
  int Of(uint64_t hash) {
    if (hash == last_ && !numbers_.empty()) return number_;
    last_ = hash;
    return number_ = numbers_.try_emplace(hash, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  absl::flat_hash_map<uint64_t, int> numbers_;
  uint64_t last_ = 0;
  int number_ = 0;
};

}  // namespace

int FlowClassifier::PlaceOf(int link) {
  int& place = local_[static_cast<size_t>(link)];
  if (place == 0) {
    used_.push_back(link);
    place = static_cast<int>(used_.size());
  }
  return place - 1;
}

// The classes of links that the flows of the set cross.
std::vector<int> FlowClassifier::LinkClassesOf(const Known& known) {
  std::vector<bool> crossed(known.classes->links.size());
  const std::vector<size_t>& first = known.classes->first_class;
  for (size_t c = first[known.set]; c < first[known.set + 1]; ++c)
    for (const int l : known.classes->classes[c].links) crossed[static_cast<size_t>(l)] = true;
  std::vector<int> numbers;
  for (size_t l = 0; l < crossed.size(); ++l)
    if (crossed[l]) numbers.push_back(static_cast<int>(l));
  return numbers;
}

// Finds the links in use. Their colours to begin with: bandwidths, and classes where those are known.
void FlowClassifier::StartLinks(const FlowClasses& all, std::span<const Known> known) {
  used_.clear(), known_.assign(all.sets.size(), {});
  std::vector<uint64_t> hashes;
  const auto hash_of = [&](int link) -> uint64_t& {
    const auto place = static_cast<size_t>(PlaceOf(link));
    if (place == hashes.size()) hashes.push_back(BitsOf(BandwidthOf(link)));
    return hashes[place];
  };
  for (size_t s = 0; s < all.sets.size(); ++s) {
    const FlowClasses* classes = known[s].classes;
    if (classes == nullptr) {
      const FlowSet& set = *all.sets[s];
      for (const int link : set.links) hash_of(link);
      for (size_t copy = 1; copy < CopiesOf(set); ++copy)
        for (const int link : set.links) hash_of(set.twins->of.at(link)[copy - 1]);
      continue;
    }
    known_[s] = LinkClassesOf(known[s]);
    for (const int l : known_[s]) {
      const uint64_t more = HashMix(s + 1, static_cast<uint64_t>(l));
      for (const int link : classes->links[static_cast<size_t>(l)]) {
        uint64_t& hash = hash_of(link);
        hash = HashMix(hash, more);
      }
    }
  }
  Numbers numbers;
  std::vector<int> links;
  links.reserve(hashes.size());
  for (const uint64_t hash : hashes) links.push_back(numbers.Of(hash));
  link_colours_.Start(std::move(links));
}

// Lists sets of which nothing is known, and those of which links of one class have several colours now. Returns whether
// there are any that were not listed before.
bool FlowClassifier::ListSplitSets(const FlowClasses& all, std::span<const Known> known) {
  bool any = false;
  const auto split = [&](size_t set) {
    for (const int l : known_[set]) {
      const std::vector<int>& links = known[set].classes->links[static_cast<size_t>(l)];
      const int colour = link_colours_[PlaceOf(links[0])];
      for (const int link : links)
        if (link_colours_[PlaceOf(link)] != colour) return true;
    }
    return false;
  };
  for (size_t s = 0; s < all.sets.size(); ++s) {
    if (listed_[s] || (known[s].classes != nullptr && !split(s))) continue;
    listed_[s] = any = true;
  }
  return any;
}

void FlowClassifier::ListCrossings(const FlowClasses& all) {
  places_.clear(), first_.assign(1, 0);
  size_t crossings = 0;
  for (size_t s = 0; s < all.sets.size(); ++s)
    if (listed_[s]) crossings += all.sets[s]->links.size() * CopiesOf(*all.sets[s]);
  places_.reserve(crossings);
  for (size_t s = 0; s < all.sets.size(); ++s) {
    if (!listed_[s]) continue;
    const FlowSet& set = *all.sets[s];
    std::vector<const std::vector<int>*> others;  // by place in set.links
    if (CopiesOf(set) > 1)
      for (const int link : set.links) others.push_back(&set.twins->of.at(link));
    for (size_t copy = 0; copy < CopiesOf(set); ++copy) {
      const size_t before = places_.size();
      for (size_t l = 0; l < set.links.size(); ++l)
        places_.push_back(PlaceOf(copy == 0 ? set.links[l] : (*others[l])[copy - 1]));
      for (size_t f = 0; f < set.flows(); ++f) first_.push_back(before + set.first[f + 1]);
    }
  }
}

void FlowClassifier::ListFlows() {
  flows_first_.assign(used_.size() + 1, 0);
  for (const int place : places_) ++flows_first_[static_cast<size_t>(place)];
  for (size_t l = 0; l < used_.size(); ++l) flows_first_[l + 1] += flows_first_[l];  // now the ends
  flows_.resize(places_.size());
  for (size_t f = first_.size() - 1; f-- > 0;) {  // backwards, so that each link's flows are in order
    for (const int place : LinksOf(static_cast<int>(f)))
      flows_[--flows_first_[static_cast<size_t>(place)]] = static_cast<int>(f);
  }
}

// Colours of flows to begin with: their bytes and limits, and classes where those are known.
void FlowClassifier::StartFlows(const FlowClasses& all, std::span<const Known> known) {
  Numbers numbers;
  std::vector<int> flows;
  flows.reserve(first_.size() - 1);
  for (size_t s = 0; s < all.sets.size(); ++s) {
    if (!listed_[s]) continue;
    const FlowSet& set = *all.sets[s];
    const FlowClasses* classes = known[s].classes;
    std::tuple<uint64_t, int, double> last;  // neighbours are often alike
    for (size_t number = 0, f = 0; number < set.flows() * CopiesOf(set); ++number, ++f) {
      if (f == set.flows()) f = 0;  // of the next copy
      const uint64_t own =
          classes != nullptr ? static_cast<uint64_t>(classes->ClassOf(known[s].set, number)) : BitsOf(set.bytes[f]);
      const std::tuple like(own, set.parts[f], set.rates[f]);
      if (number > 0 && like == last) {
        flows.push_back(flows.back());
        continue;
      }
      last = like;
      const uint64_t parts = HashMix(s, static_cast<uint64_t>(set.parts[f]));
      flows.push_back(numbers.Of(HashMix(HashMix(parts, own), BitsOf(set.rates[f]))));
    }
  }
  flow_colours_.Start(std::move(flows));
}

// Sorts the numbers of those things that are `touched`, and touches them no more. Many are found sooner by a look at
// all.
void FlowClassifier::Order(std::vector<int>& things, std::vector<bool>& touched) {
  if (things.size() * 32 < touched.size()) {
    std::sort(things.begin(), things.end());
    for (const int thing : things) touched[static_cast<size_t>(thing)] = false;
    return;
  }
  things.clear();
  for (size_t thing = 0; thing < touched.size(); ++thing)
    if (touched[thing]) things.push_back(static_cast<int>(thing));
  std::fill(touched.begin(), touched.end(), false);
}

// A flow's signature: the colours of its links, in order. A link's: the sum of a hash of its flows' colours.
void FlowClassifier::Refine() {
  std::vector<int> flows(flow_colours_.size()), links(link_colours_.size());  // touched
  std::iota(flows.begin(), flows.end(), 0), std::iota(links.begin(), links.end(), 0);
  std::vector<bool> flow_touched(flows.size()), link_touched(links.size());
  std::vector<uint64_t> signatures, sums(links.size());
  signatures.reserve(std::max(flows.size(), links.size()));
  const auto hash = [](int colour) { return HashMix(static_cast<uint64_t>(colour)); };
  for (bool first = true; !flows.empty(); first = false) {
    signatures.clear();
    for (const int f : flows) {
      uint64_t signature = 0;
      for (const int link : LinksOf(f)) {  // one multiplication a link; Split mixes the result
        signature = (signature + static_cast<uint64_t>(link_colours_[link]) + 1) * 0x9e3779b97f4a7c15;
        signature ^= signature >> 32;
      }
      signatures.push_back(signature);
    }
    const std::vector<std::pair<int, int>>& changed = flow_colours_.Split(flows, signatures);
    if (first) {
      for (size_t f = 0; f < flows.size(); ++f) {
        const uint64_t own = hash(flow_colours_[static_cast<int>(f)]);
        for (const int link : LinksOf(static_cast<int>(f))) sums[static_cast<size_t>(link)] += own;
      }
    } else {
      links.clear();
      for (const auto& [f, before] : changed) {
        const uint64_t more = hash(flow_colours_[f]) - hash(before);
        for (const int link : LinksOf(f)) {
          sums[static_cast<size_t>(link)] += more;
          if (!link_touched[static_cast<size_t>(link)]) links.push_back(link);
          link_touched[static_cast<size_t>(link)] = true;
        }
      }
      Order(links, link_touched);
    }
    signatures.clear();
    for (const int link : links) signatures.push_back(sums[static_cast<size_t>(link)]);
    flows.clear();
    for (const auto& [link, before] : link_colours_.Split(links, signatures)) {
      const auto l = static_cast<size_t>(link);
      for (size_t i = flows_first_[l]; i < flows_first_[l + 1]; ++i) {
        const int f = flows_[i];
        if (!flow_touched[static_cast<size_t>(f)]) flows.push_back(f);
        flow_touched[static_cast<size_t>(f)] = true;
      }
    }
    Order(flows, flow_touched);
  }
}

FlowClasses FlowClassifier::Classify(std::vector<std::shared_ptr<const FlowSet>> sets, std::span<const Known> known) {
  FlowClasses all;
  all.sets = std::move(sets);
  alone_ = all.sets.size() == 1 && known[0].classes == nullptr;
  listed_.assign(all.sets.size(), false);
  StartLinks(all, known);
  while (ListSplitSets(all, known)) {
    ListCrossings(all);
    ListFlows();
    StartFlows(all, known);
    Refine();
    flow_classes_ = flow_colours_.InOrder();
  }
  link_classes_ = link_colours_.InOrder();
  Describe(all, known);
  for (const int link : used_) local_[static_cast<size_t>(link)] = 0;
  const LinkTwins* twins = alone_ ? all.sets[0]->twins.get() : nullptr;
  for (std::vector<int>& links : all.links) {  // those of the other copies are alike
    const size_t first = links.size();
    for (size_t copy = 0; twins != nullptr && copy < twins->others; ++copy) {
      for (size_t l = 0; l < first; ++l) links.push_back(twins->of.at(links[l])[copy]);
    }
  }
  return all;
}

// ---- What came of it ----

void FlowClassifier::Describe(FlowClasses& all, std::span<const Known> known) const {
  DescribeLinks(all);
  std::vector<int> numbers;  // by colour of listed flows: their class
  size_t first = 0;          // of the set's flows, among the listed ones
  for (size_t s = 0; s < all.sets.size(); ++s) {
    if (listed_[s]) {
      DescribeListed(s, first, numbers, all);
      first += all.sets[s]->flows() * CopiesOf(*all.sets[s]);
    } else {
      TakeOver(s, known[s], all);
    }
    all.first_class.push_back(all.classes.size());
  }
  all.lots_of.resize(all.classes.size());
  for (const auto& kinds : all.lots) {
    for (size_t k = 0; k < kinds.size(); ++k) {
      for (const int c : kinds[k]) all.lots_of[static_cast<size_t>(c)].push_back(static_cast<int>(k));
    }
  }
}

void FlowClassifier::DescribeLinks(FlowClasses& all) const {
  for (size_t l = 0; l < used_.size(); ++l) {
    const auto number = static_cast<size_t>(link_classes_[l]);
    if (number == all.links.size()) {
      all.links.emplace_back();
      all.bandwidths.push_back(BandwidthOf(used_[l]));
    }
    all.links[number].push_back(used_[l]);
  }
}

// A set whose classes have remained: each class of its links is one now, with other numbers, and so are its flows'.
void FlowClassifier::TakeOver(size_t set, const Known& known, FlowClasses& all) const {
  const FlowClasses& before = *known.classes;
  std::vector<int> links(before.links.size(), -1), numbers(before.classes.size(), -1);
  for (const int l : known_[set]) {
    const auto example = static_cast<size_t>(before.links[static_cast<size_t>(l)][0]);
    links[static_cast<size_t>(l)] = link_classes_[static_cast<size_t>(local_[example]) - 1];
  }
  for (size_t c = before.first_class[known.set]; c < before.first_class[known.set + 1]; ++c) {
    numbers[c] = static_cast<int>(all.classes.size());
    FlowClasses::Class& own = all.classes.emplace_back(before.classes[c]);
    own.set = set;
    for (int& l : own.links) l = links[static_cast<size_t>(l)];
  }
  std::vector<std::vector<int>>& lots = all.lots.emplace_back(before.lots[known.set]);
  for (std::vector<int>& lot : lots) {
    for (int& c : lot) c = numbers[static_cast<size_t>(c)];
  }
  const auto& [of, classes] = before.numbers[known.set];
  if (!classes.empty()) {
    std::vector<int> composed;
    for (const int c : classes) composed.push_back(c < 0 ? -1 : numbers[static_cast<size_t>(c)]);
    numbers = std::move(composed);
  }
  all.numbers.push_back({of, std::move(numbers)});
}

// `first`: its first flow, among all that are listed.
void FlowClassifier::DescribeListed(size_t set_number, size_t first, std::vector<int>& numbers,
                                    FlowClasses& all) const {
  const FlowSet& set = *all.sets[set_number];
  const size_t classes_before = all.classes.size();
  std::vector<int> of;
  std::vector<int64_t> counts;   // by class, those of this set
  std::vector<size_t> examples;  // likewise, in first_
  std::vector<size_t> lot_of;    // likewise: the last lot that has it
  std::vector<std::vector<int>> lots;
  const size_t of_copy = set.empty() ? 0 : static_cast<size_t>(*std::max_element(set.lots.begin(), set.lots.end())) + 1;
  of.reserve(set.flows() * CopiesOf(set));
  size_t at = first;
  for (size_t copy = 0; copy < CopiesOf(set); ++copy) {
    for (size_t f = 0; f < set.flows(); ++f, ++at) {
      const auto colour = static_cast<size_t>(flow_classes_[at]);
      if (colour == numbers.size()) {
        numbers.push_back(static_cast<int>(all.classes.size()));
        all.classes.push_back(
            {.set = set_number, .example = of.size(), .rate = set.rates[f], .links = {}, .weights = {}});
        counts.push_back(0), examples.push_back(at), lot_of.push_back(std::numeric_limits<size_t>::max());
      }
      const auto number = static_cast<size_t>(numbers[colour]), own = number - classes_before;
      of.push_back(numbers[colour]);
      ++counts[own];
      const size_t lot = static_cast<size_t>(set.lots[f]) + copy * of_copy;
      if (lot >= lots.size()) lots.resize(lot + 1);
      if (std::exchange(lot_of[own], lot) != lot) lots[lot].push_back(numbers[colour]);
    }
  }
  std::map<std::vector<int>, int> kinds;
  for (std::vector<int>& lot : lots) {
    std::sort(lot.begin(), lot.end());
    lot.erase(std::unique(lot.begin(), lot.end()), lot.end());
    if (!lot.empty()) kinds.try_emplace(std::move(lot), 0);
  }
  std::vector<std::vector<int>>& own = all.lots.emplace_back();
  for (auto& [classes, unused] : kinds) own.push_back(classes);
  Weigh(examples, counts, classes_before, all);
  all.numbers.push_back({std::make_shared<const std::vector<int>>(std::move(of)), {}});
}

// The links of the classes from `first` on, and how many of their flows are on each.
void FlowClassifier::Weigh(std::span<const size_t> examples, std::span<const int64_t> counts, size_t first,
                           FlowClasses& all) const {
  for (size_t c = 0; c < examples.size(); ++c) {
    FlowClasses::Class& own = all.classes[first + c];
    for (const int place : LinksOf(static_cast<int>(examples[c]))) {
      const int number = link_classes_[static_cast<size_t>(place)];
      const auto known = std::find(own.links.begin(), own.links.end(), number);
      if (known == own.links.end()) {
        own.links.push_back(number);
        own.weights.push_back(1);
      } else {
        ++own.weights[static_cast<size_t>(known - own.links.begin())];
      }
    }
    // Of a class of n flows, each of which crosses m links of a class of k links, n * m / k are on each of these.
    for (size_t i = 0; i < own.links.size(); ++i) {
      const int64_t crossings = counts[c] * own.weights[i];
      const auto links = static_cast<int64_t>(all.links[static_cast<size_t>(own.links[i])].size());
      TWOFOLD_CHECK_EQ(crossings % links, 0);
      own.weights[i] = static_cast<int>(crossings / links) * all.sets[own.set]->PartsOf(own.example);
    }
  }
}

}  // namespace twofold::sim
