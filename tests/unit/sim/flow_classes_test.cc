// Classes of flows that share links alike: which they are, and that solving one of each is exact.
#include "sim/sharing/flow_classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <random>

#include "sim/sharing/flow_classifier.h"
#include "sim/sharing/fluid.h"
#include "tests/seed.h"

namespace twofold::sim {
namespace flow_classes_test {

struct Given {
  std::vector<int> links;
  double bytes;
  int lot = 0;
  double rate = std::numeric_limits<double>::infinity();
};

// Links alone: what a classifier asks of a topology.
class OnlyLinks : public Topology {
 public:
  explicit OnlyLinks(const std::vector<double>& bandwidths) {
    for (const double b : bandwidths) links_.push_back({.name = "", .bandwidth = BytesPerSecond(b)});
  }
  std::string_view kind() const override { return "links"; }
  int endpoints() const override { return 0; }
  const std::vector<Vertex>& vertices() const override { return vertices_; }
  const std::vector<Link>& links() const override { return links_; }
  void Route(Pair, int64_t, std::vector<int>&) const override {}

 private:
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
};

std::shared_ptr<const FlowSet> SetOf(const std::vector<Given>& flows) {
  auto set = std::make_shared<FlowSet>();
  for (const Given& f : flows) set->Add(f.links, f.bytes, f.rate, f.lot);
  return set;
}

FlowClasses Classify(const std::vector<double>& bandwidths, const std::vector<std::vector<Given>>& sets) {
  std::vector<std::shared_ptr<const FlowSet>> all;
  for (const std::vector<Given>& set : sets) all.push_back(SetOf(set));
  const std::vector<FlowClassifier::Known> known(all.size());
  return FlowClassifier(OnlyLinks(bandwidths)).Classify(all, known);
}

// A ring of n: each endpoint sends on link 2 i and receives on 2 i + 1.
std::vector<Given> Ring(int n) {
  std::vector<Given> flows;
  for (int i = 0; i < n; ++i) flows.push_back({{2 * i, 2 * ((i + 1) % n) + 1}, 1e9, i});
  return flows;
}

TEST(FlowClasses, ARingIsOneClass) {
  const FlowClasses ring = Classify(std::vector<double>(2000, 1e9), {Ring(1000)});
  ASSERT_EQ(ring.classes.size(), 1u);
  ASSERT_EQ(ring.links.size(), 1u);
  EXPECT_EQ(ring.links[0].size(), 2000u);
  EXPECT_EQ(ring.classes[0].weights, std::vector<int>{1});
  EXPECT_EQ(ring.lots[0].size(), 1u) << "a thousand lots of one kind";
}

// One link that is narrower, one flow that is shorter or limited: what has nothing to do with it stays together.
TEST(FlowClasses, WhatDiffersTellsOthersApart) {
  std::vector<double> bandwidths(12, 1e9);
  bandwidths[4] = 5e8;  // endpoint 2 sends more slowly
  const FlowClasses narrow = Classify(bandwidths, {Ring(6)});
  EXPECT_EQ(narrow.classes.size(), 2u);
  EXPECT_EQ(narrow.links.size(), 3u) << "its link, its receiver's, and the other ten";
  std::vector<Given> shorter = Ring(6);
  shorter[3].bytes = 5e8;
  EXPECT_EQ(Classify(std::vector<double>(12, 1e9), {shorter}).classes.size(), 2u);
  std::vector<Given> limited = Ring(6);
  limited[3].rate = 1e8;
  EXPECT_EQ(Classify(std::vector<double>(12, 1e9), {limited}).classes.size(), 2u);
}

// A second set on one of the links: the flow there is apart, and the one that shares a link with nobody else is not.
TEST(FlowClasses, SetsTellEachOthersFlowsApart) {
  const FlowClasses both = Classify(std::vector<double>(14, 1e9), {Ring(6), {{{0, 12}, 1e9}}});
  EXPECT_EQ(both.ClassOf(0, 0), 0);
  EXPECT_NE(both.ClassOf(0, 0), both.ClassOf(0, 1));
  EXPECT_EQ(both.ClassOf(0, 1), both.ClassOf(0, 5));
  EXPECT_EQ(both.classes.size(), 3u);
  const FlowClasses twice = Classify(std::vector<double>(12, 1e9), {Ring(6), Ring(6)});
  EXPECT_EQ(twice.classes.size(), 2u);
  EXPECT_EQ(twice.classes[0].weights, std::vector<int>{1});
}

TEST(FlowClasses, WeightsCountTheFlowsOfALink) {
  // Four senders, whose flows go through one link, and on to two receivers.
  const FlowClasses in =
      Classify({1, 1, 1, 1, 2, 1, 1}, {{{{0, 4, 5}, 1}, {{1, 4, 5}, 1}, {{2, 4, 6}, 1}, {{3, 4, 6}, 1}}});
  ASSERT_EQ(in.classes.size(), 1u);
  EXPECT_EQ(in.classes[0].weights, (std::vector<int>{1, 4, 2}));
}

// A flow with parts is so many flows: alone in its class, and as heavy on its links.
TEST(FlowClasses, PartsAreEqualFlows) {
  const auto of = [](const std::vector<std::pair<int, int>>& parts) {  // sender, parts
    auto set = std::make_shared<FlowSet>();
    for (const auto& [sender, own] : parts) {
      const int links[] = {sender, 4};
      set->Add(links, 1e9, Fluid::kNoLimit, 0, own);
    }
    return set;
  };
  const auto classify = [](const std::shared_ptr<const FlowSet>& set) {
    const FlowClassifier::Known nothing;
    return FlowClassifier(OnlyLinks(std::vector<double>(5, 1e9))).Classify({set}, {&nothing, 1});
  };
  const auto three = of({{0, 3}, {1, 1}, {2, 3}}),
             one_by_one = of({{0, 1}, {0, 1}, {0, 1}, {1, 1}, {2, 1}, {2, 1}, {2, 1}});
  const FlowClasses few = classify(three), many = classify(one_by_one);
  ASSERT_EQ(few.classes.size(), 2u);
  EXPECT_EQ(few.ClassOf(0, 0), few.ClassOf(0, 2));
  EXPECT_EQ(few.classes[0].weights, (std::vector<int>{3, 6}));
  EXPECT_EQ(few.classes[1].weights, (std::vector<int>{1, 1}));
  ASSERT_EQ(many.classes.size(), 2u);
  for (size_t c = 0; c < 2; ++c) EXPECT_EQ(few.classes[c].weights, many.classes[c].weights);
  EXPECT_NE(HashOf(*three), HashOf(*of({{0, 3}, {1, 3}, {2, 3}})));
}

// Three copies of uneven flows among four endpoints, each on links of its own, as one copy with twins and flow by flow;
// alone, and with a second set that meets the copies in different ways.
TEST(FlowClasses, TwinsAreClassifiedAsAllOfThemWouldBe) {
  constexpr int kCopies = 3, kLinks = 8;
  const std::vector<double> bandwidths(kCopies * kLinks + 1, 1e9);
  const auto copy = [](int c) {
    std::vector<Given> flows;
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        if (i != j) flows.push_back({{kLinks * c + 2 * i, kLinks * c + 2 * j + 1}, 1e9 * (1 + j % 3), c});
    return flows;
  };
  std::vector<Given> all;
  auto twins = std::make_shared<LinkTwins>(LinkTwins{.number = 7, .others = kCopies - 1});
  for (int c = 0; c < kCopies; ++c)
    for (const Given& f : copy(c)) all.push_back(f);
  for (int l = 0; l < kLinks; ++l) twins->of[l] = {kLinks + l, 2 * kLinks + l};
  FlowSet first = *SetOf(copy(0));
  first.twins = twins;
  const auto one = std::make_shared<const FlowSet>(std::move(first));
  const OnlyLinks links(bandwidths);
  const auto classify = [&links](std::shared_ptr<const FlowSet> set, const std::vector<Given>& other) {
    std::vector<std::shared_ptr<const FlowSet>> sets = {std::move(set)};
    if (!other.empty()) sets.push_back(SetOf(other));
    const std::vector<FlowClassifier::Known> known(sets.size());
    return FlowClassifier(links).Classify(sets, known);
  };
  const std::vector<std::vector<Given>> others = {
      {}, {{{kLinks + 2, 24}, 3e9}}, {{{0, kLinks + 1}, 1e9}, {{kLinks, 2 * kLinks + 1}, 1e9}}};
  EXPECT_EQ(one->copies(), 3u);
  for (const std::vector<Given>& other : others) {
    const FlowClasses want = classify(SetOf(all), other), got = classify(one, other);
    ASSERT_EQ(got.classes.size(), want.classes.size());
    EXPECT_EQ(got.bandwidths, want.bandwidths);
    EXPECT_EQ(got.lots, want.lots);
    for (size_t l = 0; l < want.links.size(); ++l) {
      std::vector<int> a = got.links[l], b = want.links[l];
      std::sort(a.begin(), a.end()), std::sort(b.begin(), b.end());
      EXPECT_EQ(a, b);
    }
    for (size_t c = 0; c < want.classes.size(); ++c) {
      EXPECT_EQ(got.classes[c].links, want.classes[c].links);
      EXPECT_EQ(got.classes[c].weights, want.classes[c].weights);
    }
    for (size_t f = 0; f < all.size(); ++f) EXPECT_EQ(got.ClassOf(0, f), want.ClassOf(0, f)) << f;
  }
}

// Expects the same classes of flows and of links, perhaps with other numbers.
void ExpectSameClasses(const FlowClasses& got, const FlowClasses& want) {
  ASSERT_EQ(got.classes.size(), want.classes.size());
  ASSERT_EQ(got.links.size(), want.links.size());
  std::vector<int> flows(want.classes.size(), -1), links(want.links.size(), -1);  // by number in `want`: that in `got`
  std::map<int, int> of_link;                                                     // in `got`
  for (size_t l = 0; l < got.links.size(); ++l)
    for (const int link : got.links[l]) of_link[link] = static_cast<int>(l);
  for (size_t l = 0; l < want.links.size(); ++l) {
    links[l] = of_link.at(want.links[l][0]);
    EXPECT_EQ(got.links[static_cast<size_t>(links[l])].size(), want.links[l].size());
    EXPECT_EQ(got.bandwidths[static_cast<size_t>(links[l])], want.bandwidths[l]);
    for (const int link : want.links[l]) EXPECT_EQ(of_link.at(link), links[l]);
  }
  for (size_t s = 0; s < want.sets.size(); ++s) {
    for (size_t f = 0; f < want.sets[s]->flows() * want.sets[s]->copies(); ++f) {
      int& number = flows[static_cast<size_t>(want.ClassOf(s, f))];
      if (number < 0) number = got.ClassOf(s, f);
      ASSERT_EQ(number, got.ClassOf(s, f)) << "flow " << f << " of set " << s;
    }
    EXPECT_EQ(got.lots[s].size(), want.lots[s].size());
  }
  for (size_t c = 0; c < want.classes.size(); ++c) {
    const FlowClasses::Class &own = got.classes[static_cast<size_t>(flows[c])], &other = want.classes[c];
    EXPECT_EQ(own.set, other.set);
    EXPECT_EQ(own.rate, other.rate);
    EXPECT_EQ(want.ClassOf(own.set, own.example), static_cast<int>(c));
    EXPECT_EQ(got.lots_of[static_cast<size_t>(flows[c])].size(), want.lots_of[c].size());
    std::map<int, int> weights, others;
    for (size_t i = 0; i < own.links.size(); ++i) weights[own.links[i]] = own.weights[i];
    for (size_t i = 0; i < other.links.size(); ++i)
      others[links[static_cast<size_t>(other.links[i])]] = other.weights[i];
    EXPECT_EQ(weights, others) << "class " << c;
  }
}

// Sets whose classes are known, alone and from a meeting without the last of them, have the classes that they have if
// nothing is known: whether or not these remain. Some sets stand for several copies.
TEST(FlowClasses, KnownClassesAreTakenOverOrSplit) {
  std::mt19937 random(TestSeed());
  const auto any = [&random](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  size_t remained = 0, split = 0;
  for (int round = 0; round < 300; ++round) {
    const int ends = 24, copies = 1 + any(3), own = 2 * ends + 8;  // links of a copy: of ends, of 4 switches
    const OnlyLinks links(std::vector<double>(static_cast<size_t>(copies * own), 1e9));
    std::vector<std::shared_ptr<const FlowSet>> sets;
    auto twins = std::make_shared<LinkTwins>(LinkTwins{.number = 1, .others = static_cast<size_t>(copies - 1)});
    for (int l = 0; l < own; ++l)
      for (int copy = 1; copy < copies; ++copy) twins->of[l].push_back(copy * own + l);
    for (int count = 2 + any(3); count > 0; --count) {
      FlowSet set;
      const bool all = any(2) == 0;
      const int range = ends >> any(3), begin = any(ends / range) * range, shift = 1 + any(range - 1),
                step = 1 + any(2);
      const int bytes = 1 + any(2);
      for (int copy = 0; copy < (all ? 1 : copies); ++copy) {
        for (int i = 0; i < range; i += step) {
          const int from = begin + i, to = begin + (i + shift) % range, a = from / 6, b = to / 6;
          std::vector<int> route = {2 * from, 2 * to + 1};
          if (a != b) route.insert(route.begin() + 1, {2 * ends + 2 * a, 2 * ends + 2 * b + 1});
          for (int& link : route) link += copy * own;
          set.Add(route, bytes + (any(200) == 0 ? 1 : 0), round % 2 == 0 ? 1e8 : Fluid::kNoLimit, from % 2);
        }
      }
      if (all && copies > 1) set.twins = twins;
      sets.push_back(std::make_shared<const FlowSet>(std::move(set)));
    }
    FlowClassifier classifier(links);
    const std::vector<FlowClassifier::Known> nothing(sets.size());
    const FlowClasses want = classifier.Classify(sets, nothing);
    std::vector<FlowClasses> alone;
    for (const auto& set : sets) alone.push_back(classifier.Classify({set}, {nothing.data(), 1}));
    std::vector<FlowClassifier::Known> known;
    for (const FlowClasses& of : alone) known.push_back({&of, 0});
    const FlowClasses got = classifier.Classify(sets, known);
    ExpectSameClasses(got, want);
    for (size_t s = 0; s < sets.size(); ++s) ++(got.numbers[s].of == alone[s].numbers[0].of ? remained : split);
    const size_t before = sets.size() - 1;
    const FlowClasses met = classifier.Classify({sets.begin(), sets.end() - 1}, {known.data(), before});
    for (size_t s = 0; s < before; ++s) known[s] = {&met, s};
    ExpectSameClasses(classifier.Classify(sets, known), want);
    // One set that met others keeps what these told apart.
    const FlowClasses rest = classifier.Classify({sets[0]}, {known.data(), 1});
    for (size_t f = 0; f < sets[0]->flows() * sets[0]->copies(); ++f)
      EXPECT_EQ(rest.ClassOf(0, f),
                rest.ClassOf(0, static_cast<size_t>(met.classes[static_cast<size_t>(met.ClassOf(0, f))].example)));
    if (testing::Test::HasFailure()) FAIL() << "round " << round;
  }
  std::printf("of %zu sets that met, the classes of %zu remained\n", remained + split, remained);
  EXPECT_GT(remained, 30u);
  EXPECT_GT(split, 30u);
}

// Regular networks with some irregularities: the ends of all flows are those of their classes.
TEST(FlowClasses, SolvingOneOfEachIsExact) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 40; ++round) {
    const int endpoints = 24, leaf = 4 + 2 * static_cast<int>(random() % 3);
    std::vector<double> bandwidths(static_cast<size_t>(2 * endpoints), 1.0);
    const int leaves = endpoints / leaf;
    for (int l = 0; l < 2 * leaves; ++l) bandwidths.push_back(leaf / 2.0);
    if (round % 2 == 1) bandwidths[random() % bandwidths.size()] *= 0.7;
    std::vector<Given> flows;
    for (const int shift : {1 + static_cast<int>(random() % 5), 6 + static_cast<int>(random() % 7)}) {
      for (int from = 0; from < endpoints; ++from) {
        const int to = (from + shift) % endpoints, own = from / leaf, other = to / leaf;
        std::vector<int> links = {2 * from, 2 * to + 1};
        if (own != other) links.insert(links.begin() + 1, {2 * endpoints + 2 * own, 2 * endpoints + 2 * other + 1});
        flows.push_back({links, shift < 6 ? 1.0 : 2.5, from});
      }
    }
    if (round % 3 == 2) flows[random() % flows.size()].bytes *= 1.5;
    Fluid each(bandwidths);
    for (const Given& f : flows) each.Add(f.links, f.bytes, f.rate);
    const FlowClasses classes = Classify(bandwidths, {flows});
    Fluid one(classes.bandwidths);
    for (const FlowClasses::Class& c : classes.classes) one.Add(c.links, flows[c.example].bytes, c.rate, c.weights);
    const std::vector<double>&ends = each.Solve(), &of_classes = one.Solve();
    if (round % 6 == 0) {
      EXPECT_LT(classes.classes.size(), flows.size() / 2) << round;
    }
    for (size_t f = 0; f < flows.size(); ++f)
      ASSERT_NEAR(of_classes[static_cast<size_t>(classes.ClassOf(0, f))], ends[f], 1e-12 * ends[f])
          << round << " " << f;
  }
}

}  // namespace flow_classes_test
}  // namespace twofold::sim
