#include "sim/flow_classes.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <utility>

#include "core/base/check.h"

namespace twofold::sim {
namespace {

uint64_t BitsOf(double x) { return std::bit_cast<uint64_t>(x); }

}  // namespace

void FlowClassifier::ListLinks(const FlowClasses& all) {
  used_.clear();
  for (const auto& set : all.sets) {
    for (const int link : set->links) {
      int& place = local_[static_cast<size_t>(link)];
      if (place >= 0) continue;
      place = static_cast<int>(used_.size());
      used_.push_back(link);
    }
  }
}

// One round of refinement: first of flows by their links, then of links by their flows. Returns the number of colours.
size_t FlowClassifier::Refine(const FlowClasses& all) {
  numbers_.Clear();
  sums_.assign(2 * used_.size(), 0);
  size_t at = 0;
  for (const auto& set : all.sets) {
    for (size_t f = 0; f < set->flows(); ++f, ++at) {
      uint64_t hash = HashMix(static_cast<uint64_t>(flow_colours_[at]));
      for (const int link : set->LinksOf(f)) {
        const auto place = static_cast<size_t>(local_[static_cast<size_t>(link)]);
        hash = HashMix(hash, static_cast<uint64_t>(link_colours_[place]));
      }
      flow_colours_[at] = numbers_.Of(hash);
      const uint64_t one = HashMix(static_cast<uint64_t>(flow_colours_[at])), other = HashMix(~one);
      for (const int link : set->LinksOf(f)) {
        const auto place = static_cast<size_t>(local_[static_cast<size_t>(link)]);
        sums_[2 * place] += one, sums_[2 * place + 1] += other;
      }
    }
  }
  const size_t flow_colours = numbers_.size();
  numbers_.Clear();
  for (size_t l = 0; l < used_.size(); ++l) {
    const uint64_t hash = HashMix(HashMix(static_cast<uint64_t>(link_colours_[l]), sums_[2 * l]), sums_[2 * l + 1]);
    link_colours_[l] = numbers_.Of(hash);
  }
  return flow_colours + numbers_.size();
}

FlowClasses FlowClassifier::Classify(std::vector<std::shared_ptr<const FlowSet>> sets,
                                     std::span<const std::vector<int>* const> colours) {
  FlowClasses all;
  all.sets = std::move(sets);
  ListLinks(all);
  numbers_.Clear();
  flow_colours_.clear(), link_colours_.clear();
  for (size_t s = 0; s < all.sets.size(); ++s) {
    const FlowSet& set = *all.sets[s];
    for (size_t f = 0; f < set.flows(); ++f) {
      const uint64_t own = colours[s] != nullptr ? static_cast<uint64_t>((*colours[s])[f]) : BitsOf(set.bytes[f]);
      flow_colours_.push_back(numbers_.Of(HashMix(HashMix(s, own), BitsOf(set.rates[f]))));
    }
  }
  numbers_.Clear();
  for (const int link : used_) link_colours_.push_back(numbers_.Of(BitsOf(bandwidths_[static_cast<size_t>(link)])));
  for (size_t before = 0, now = Refine(all); now > before; now = Refine(all)) before = now;
  Describe(all);
  for (const int link : used_) local_[static_cast<size_t>(link)] = -1;
  return all;
}

void FlowClassifier::Describe(FlowClasses& all) const {
  for (size_t l = 0; l < used_.size(); ++l) {
    const auto number = static_cast<size_t>(link_colours_[l]);
    if (number == all.links.size()) {
      all.links.emplace_back();
      all.bandwidths.push_back(bandwidths_[static_cast<size_t>(used_[l])]);
    }
    all.links[number].push_back(used_[l]);
  }
  std::vector<int64_t> counts;  // by class
  size_t at = 0;
  for (size_t s = 0; s < all.sets.size(); ++s) {
    const FlowSet& set = *all.sets[s];
    std::vector<int>& of = all.of.emplace_back();
    std::vector<std::vector<int>> lots;
    for (size_t f = 0; f < set.flows(); ++f, ++at) {
      const int number = flow_colours_[at];
      of.push_back(number);
      if (static_cast<size_t>(number) == all.classes.size()) {
        all.classes.push_back({.set = s, .example = f, .rate = set.rates[f], .links = {}, .weights = {}});
        counts.push_back(0);
      }
      ++counts[static_cast<size_t>(number)];
      const auto lot = static_cast<size_t>(set.lots[f]);
      if (lot >= lots.size()) lots.resize(lot + 1);
      if (lots[lot].empty() || lots[lot].back() != number) lots[lot].push_back(number);
    }
    std::map<std::vector<int>, int> kinds;
    for (std::vector<int>& lot : lots) {
      std::sort(lot.begin(), lot.end());
      lot.erase(std::unique(lot.begin(), lot.end()), lot.end());
      if (!lot.empty()) kinds.try_emplace(std::move(lot), 0);
    }
    std::vector<std::vector<int>>& own = all.lots.emplace_back();
    for (auto& [classes, unused] : kinds) own.push_back(classes);
  }
  all.lots_of.resize(all.classes.size());
  for (const auto& kinds : all.lots) {
    for (size_t k = 0; k < kinds.size(); ++k) {
      for (const int c : kinds[k]) all.lots_of[static_cast<size_t>(c)].push_back(static_cast<int>(k));
    }
  }
  for (size_t c = 0; c < all.classes.size(); ++c) {
    FlowClasses::Class& own = all.classes[c];
    for (const int link : all.sets[own.set]->LinksOf(own.example)) {
      const int number = link_colours_[static_cast<size_t>(local_[static_cast<size_t>(link)])];
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
      own.weights[i] = static_cast<int>(crossings / links);
    }
  }
}

}  // namespace twofold::sim
