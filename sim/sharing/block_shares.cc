#include "sim/sharing/block_shares.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "core/base/check.h"
#include "sim/sharing/flow_classes.h"

namespace twofold::sim {
namespace {

constexpr double kNotFull = std::numeric_limits<double>::infinity();  // a level
constexpr double kSameRate = 1e-12;     // rates, and sums of rates, that differ by less, relative to them, are equal
constexpr double kFullFrom = 1 - 1e-9;  // of a bandwidth
constexpr double kOneEnd = 1e-12;       // ends within this share of a time are of one moment
constexpr double kNoLoad = 1e-14;       // of a bandwidth: a change of a load that is rounding

}  // namespace

BlockShares::BlockShares(std::vector<double> bandwidths) { flows_.bandwidths = std::move(bandwidths); }

BlockShares::BlockShares(std::shared_ptr<const FlowBlocks::Network> network, std::vector<double> bytes)
    : network_(std::move(network)), bytes_(std::move(bytes)) {
  TWOFOLD_CHECK_EQ(bytes_.size(), network_->flows().size());
}

void BlockShares::Add(std::span<const int> links, double bytes, double rate, std::span<const int> weights) {
  TWOFOLD_CHECK(bytes > 0 && links.size() == weights.size(), "a flow has bytes, and a weight on each link");
  TWOFOLD_CHECK(!links.empty() || rate < kNotFull, "something limits a flow");
  flows_.Add(links, weights, rate);
  bytes_.push_back(bytes);
}

// ---- Kinds in a sweep ----

// Finds what is on a kind when a sweep first comes there, before any of its flows changes.
BlockShares::Kind& BlockShares::Touch(int kind) {
  Kind& own = KindAt(kind);
  if (own.sweep == sweep_) return own;
  if (std::exchange(own.told, false)) untold_.push_back(kind);
  own = {.sweep = sweep_, .told = false, .queued = kNotFull};
  std::vector<FlowBlocks::On>& all = parts_->OnKind(kind);
  for (size_t i = 0; i < all.size();) {
    const Block& block = BlockAt(all[i].block);
    if (block.state == State::kEnded) {
      all[i] = all.back();
      all.pop_back();
      continue;
    }
    own.fixed += all[i].weight * block.rate, own.fastest = std::max(own.fastest, block.rate);
    ++i;
  }
  own.level = own.fixed >= parts_->BandwidthOf(kind) * kFullFrom ? own.fastest : kNotFull;
  return own;
}

void BlockShares::Mark(int kind) {
  if (!std::exchange(KindAt(kind).marked, true)) marked_.push_back(kind);
}

// Calls visit(kind, weight of the block there) for every kind that it crosses, which it touches and marks.
template <class Visit>
void BlockShares::ForKindsOf(int block, Visit&& visit) {
  for (const auto& [kind, weight] : parts_->KindsOf(block)) {
    visit(Touch(kind), weight);
    Mark(kind);
  }
}

void BlockShares::Queue(int kind, double level) {
  Kind& own = KindAt(kind);
  if (level >= own.queued) return;
  own.queued = level;
  queue_.emplace(level, kind);
}

void BlockShares::QueueMarked() {
  for (const int kind : marked_) {
    KindAt(kind).marked = false;
    Queue(kind, NextOf(kind, false).level);
  }
  marked_.clear();
}

// At what level a kind's links are full if released flows have that rate, and no other a higher one; infinite: they are
// not. From below: at each try those with lower rates keep them, and the others have equal parts of the rest.
double BlockShares::FullAt(int kind) {
  const Kind& own = KindAt(kind);
  const double bandwidth = parts_->BandwidthOf(kind);
  for (double level = 0;;) {
    double slower = 0, others = own.released;
    for (const FlowBlocks::On& on : parts_->OnKind(kind)) {
      const Block& block = BlockAt(on.block);
      if (block.state == State::kReleased || block.state == State::kEnded) continue;
      if (block.rate <= level)
        slower += on.weight * block.rate;
      else
        others += on.weight;
    }
    if (others == 0) return kNotFull;
    const double next = (bandwidth - slower) / others;
    if (next <= level * (1 + kSameRate / 16)) return std::max(level, next);
    level = next;
  }
}

// Of a kind that is touched, what happens there next if nothing happens elsewhere before. Not `exactly`: perhaps later
// than that.
BlockShares::Event BlockShares::NextOf(int kind, bool exactly) {
  Kind& own = KindAt(kind);
  const double bandwidth = parts_->BandwidthOf(kind);
  if (own.released == 0 && own.fixed <= bandwidth * (1 + kSameRate)) {
    const bool releases = own.level < kNotFull && own.fixed < bandwidth * (1 - kSameRate);
    return {releases ? own.level : kNotFull, releases};
  }
  double level = own.released > 0 ? (bandwidth - own.fixed) / own.released : 0;  // if no flow is faster than that
  if (own.released == 0 || level < own.fastest) {
    if (exactly) own.least = FullAt(kind);
    level = exactly ? own.least : std::max({level, own.least, level_});
  }
  if (level > own.level * (1 + kSameRate)) return {own.level, true};
  return {level, false};
}

// The flows that have its level may become faster.
void BlockShares::Release(int kind) {
  const double level = std::exchange(KindAt(kind).level, kNotFull);
  for (const FlowBlocks::On& on : parts_->OnKind(kind)) {
    const Block& block = BlockAt(on.block);
    if (block.state == State::kKept && block.rate >= level * kFullFrom) ReleaseBlock(on.block);
  }
  Kind& own = KindAt(kind);
  own.fastest = std::min(own.fastest, level);
  Mark(kind);
}

void BlockShares::ReleaseBlock(int number) {
  Block& block = BlockAt(number);
  ForKindsOf(number, [rate = block.rate](Kind& of, double weight) {
    of.fixed -= weight * rate, of.released += weight;
    of.least = 0;
  });
  block.state = State::kReleased, block.before = block.rate;
  changed_.push_back(number);
  if (block.limit < kNotFull) queue_.emplace(block.limit, ~number);
}

// No flow on the links of the kind is faster than this.
void BlockShares::Settle(int kind, double level) {
  Kind& own = KindAt(kind);
  own.level = level, own.fastest = std::min(own.fastest, level);
  std::vector<std::pair<int, bool>> there;
  for (const FlowBlocks::On& on : parts_->OnKind(kind)) {
    const Block& block = BlockAt(on.block);
    if (block.state == State::kReleased || (block.state == State::kKept && block.rate > level * (1 + kSameRate)))
      there.emplace_back(on.block, on.all);
  }
  for (const auto& [block, all] : there) SettleBlock(all ? block : Crossing(block, kind), level);
}

void BlockShares::SettleBlock(int number, double level) {
  Block& block = BlockAt(number);
  if (block.state == State::kReleased) {
    ForKindsOf(number, [level](Kind& of, double weight) {
      of.fixed += weight * level, of.released -= weight;
      of.fastest = std::max(of.fastest, level);
    });
  } else {
    ForKindsOf(number,
               [before = block.rate, level](Kind& of, double weight) { of.fixed -= weight * (before - level); });
    block.before = block.rate;
    changed_.push_back(number);
  }
  block.state = State::kSettled, block.rate = level;
}

// The block of those flows of `number` that cross the kind: it is split if others do not.
int BlockShares::Crossing(int number, int kind) {
  const auto [crossing, others] = parts_->Split(number, kind, made_);
  for (FlowBlocks::On& on : parts_->OnKind(kind)) {
    if (on.block == crossing) on.all = true;
  }
  if (others < 0) return crossing;
  const int fresh = std::max(crossing, others);
  blocks_.push_back(Block(BlockAt(number)));
  fresh_.push_back(fresh), moved_.push_back(fresh);
  if (BlockAt(fresh).state == State::kReleased) {
    changed_.push_back(fresh);
    if (BlockAt(fresh).limit < kNotFull) queue_.emplace(BlockAt(fresh).limit, ~fresh);
  }
  for (const auto& [part, of] : made_) {
    kinds_.push_back(Kind(KindAt(of)));
    Kind& own = kinds_.back();
    own.told = false, own.marked = false, own.queued = kNotFull;
    untold_.push_back(part);
    if (own.sweep == sweep_) Mark(part);
  }
  return crossing;
}

// From the least level up.
void BlockShares::Sweep() {
  for (QueueMarked(); !queue_.empty(); QueueMarked()) {
    const auto [level, number] = queue_.top();
    queue_.pop();
    if (number < 0) {  // the limit of a block
      if (BlockAt(~number).state != State::kReleased) continue;
      level_ = std::max(level_, level);
      SettleBlock(~number, level);
      continue;
    }
    Kind& own = KindAt(number);
    if (level > own.queued) continue;  // it was queued for less, too
    own.queued = kNotFull;
    const Event next = NextOf(number, true);
    if (next.level == kNotFull) continue;
    if (next.level > level * (1 + kSameRate)) {
      Queue(number, next.level);
      continue;
    }
    level_ = std::max(level_, next.level);
    if (next.releases)
      Release(number);
    else
      Settle(number, next.level);
  }
}

// ---- Time ----

void BlockShares::Start() {
  // Shares that differ by rounding are equal: without the last 12 bits, rounded.
  absl::flat_hash_map<std::pair<uint64_t, double>, int> numbers;
  std::vector<int> of;
  std::pair<uint64_t, double> last;  // neighbours are often alike
  of.reserve(bytes_.size());
  int block = -1;
  for (size_t f = 0; f < bytes_.size(); ++f) {
    if (bytes_[f] == 0) {
      of.push_back(-1);
      continue;
    }
    const double limit = network_->flows().limits[f];
    const std::pair own((std::bit_cast<uint64_t>(bytes_[f]) + (1 << 11)) >> 12, limit);
    if (block < 0 || own != last) {
      last = own;
      block = numbers.try_emplace(own, static_cast<int>(blocks_.size())).first->second;
      if (static_cast<size_t>(block) == blocks_.size()) blocks_.push_back({.left = bytes_[f], .limit = limit});
    }
    of.push_back(block);
  }
  rates_.assign(bytes_.size(), 0), loads_.assign(network_->flows().bandwidths.size(), 0);
  parts_.emplace(network_, std::move(of));
  kinds_.resize(parts_->kinds());
  ++sweep_;
  for (size_t b = 0; b < parts_->blocks(); ++b) ReleaseBlock(static_cast<int>(b));
  Sweep();
  Keep(0);
}

// After a sweep, the rates that it has found are those of the flows from `time` on.
void BlockShares::Keep(double time) {
  for (const int number : changed_) {
    Block& block = BlockAt(number);
    TWOFOLD_CHECK(block.state == State::kSettled, "every flow has a link that limits it, or a limit");
    block.state = State::kKept;
    if (std::abs(block.rate - block.before) <= kSameRate * block.before) {
      block.rate = block.before;
      continue;
    }
    block.left = std::max(0.0, block.left - block.before * (time - block.since));
    block.since = time, block.end = time + block.left / block.rate;
    ends_.emplace(block.end, number);
    moved_.push_back(number);
  }
  for (const int number : fresh_) ends_.emplace(BlockAt(number).end, number);
  changed_.clear(), fresh_.clear();
}

// Ends the flows that are next, if that is not after `until`, and shares what they leave.
std::optional<double> BlockShares::EndNext(double until) {
  const auto obsolete = [this] {
    const auto& [end, number] = ends_.top();
    const Block& block = BlockAt(number);
    return block.state == State::kEnded || end != block.end;
  };
  while (!ends_.empty() && obsolete()) ends_.pop();
  if (ends_.empty() || ends_.top().first > until) return std::nullopt;
  const double time = ends_.top().first;
  std::vector<int> ended;
  for (; !ends_.empty() && ends_.top().first <= time * (1 + kOneEnd); ends_.pop()) {
    const int number = ends_.top().second;
    if (!obsolete() && (ended.empty() || ended.back() != number)) ended.push_back(number);
  }
  ++sweep_, level_ = 0;
  for (const int number : ended) ForKindsOf(number, [](Kind&, double) {});  // with all flows still on them
  for (const int number : ended) {
    Block& block = BlockAt(number);
    ForKindsOf(number, [rate = block.rate](Kind& of, double weight) { of.fixed -= weight * rate; });
    block.state = State::kEnded, block.rate = 0;
    moved_.push_back(number);
  }
  Sweep();
  Keep(time);
  return time;
}

void BlockShares::Tell(Step& step) {
  size_t flows = 0;
  for (const int number : moved_) flows += parts_->FlowsOf(number).size();
  step.rates.reserve(std::min(flows, rates_.size()));
  for (const int number : moved_) {
    const double rate = BlockAt(number).rate;
    for (const int flow : parts_->FlowsOf(number)) {
      if (std::exchange(rates_[static_cast<size_t>(flow)], rate) != rate) step.rates.emplace_back(flow, rate);
    }
  }
  for (const int number : untold_) {
    KindAt(number).told = true;
    double load = 0;
    for (const FlowBlocks::On& on : parts_->OnKind(number)) load += on.weight * BlockAt(on.block).rate;
    const double rounding = parts_->BandwidthOf(number) * kNoLoad;
    for (const int link : parts_->LinksOf(number)) {
      double& told = loads_[static_cast<size_t>(link)];
      if (load == told || (load > 0 && std::abs(load - told) <= rounding)) continue;
      step.loads.emplace_back(link, load - told);
      told = load;
    }
  }
  moved_.clear(), untold_.clear();
}

std::optional<BlockShares::Step> BlockShares::Next() {
  Step step{};
  if (!parts_) {
    if (std::none_of(bytes_.begin(), bytes_.end(), [](double bytes) { return bytes > 0; })) return std::nullopt;
    if (network_ == nullptr) network_ = std::make_shared<const FlowBlocks::Network>(std::move(flows_));
    Start();
  } else {
    const std::optional<double> first = EndNext(kNotFull);
    if (!first) return std::nullopt;
    step.time = *first;
    while (EndNext(*first * (1 + kOneEnd))) {
    }
  }
  Tell(step);
  return step;
}

}  // namespace twofold::sim
