#include "strategies/expert_parallel/dropless.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/base/check.h"

namespace twofold {
namespace {

using Counts = std::vector<int64_t>;

int64_t Sum(std::span<const int64_t> counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// Sums of consecutive runs of `size` counts, times `factor`.
Counts SumsOf(std::span<const int64_t> counts, int64_t size, int64_t factor = 1) {
  Counts sums;
  for (size_t first = 0; first < counts.size(); first += static_cast<size_t>(size))
    sums.push_back(factor * Sum(counts.subspan(first, static_cast<size_t>(size))));
  return sums;
}

// Which rows go where. `own`: this rank's rows by expert. `arriving`: rows by sender, then by this rank's experts.
struct Rows {
  std::span<const int64_t> own, arriving;
  int64_t local;  // experts of a rank

  Counts ByExpert() const {
    Counts rows(static_cast<size_t>(local));
    for (size_t i = 0; i < arriving.size(); ++i) rows[i % rows.size()] += arriving[i];
    return rows;
  }
  // Of each row that arrives: its place in the order of experts; among rows of one expert, in the order of arrival.
  void PutPlaces(std::span<int32_t> places) const {
    Counts next = ByExpert();
    std::exclusive_scan(next.begin(), next.end(), next.begin(), int64_t{0});
    size_t row = 0;
    for (size_t i = 0; i < arriving.size(); ++i)
      for (int64_t n = 0; n < arriving[i]; ++n) places[row++] = static_cast<int32_t>(next[i % next.size()]++);
  }
};

class DroplessExperts final : public nn::Composite {
 public:
  DroplessExperts(const nn::MixtureConfig& config, const ExpertGroups& groups, std::unique_ptr<nn::Module> experts)
      : config_(config), groups_(groups), local_(config.experts / groups.experts.size()) {
    AddChild("", std::move(experts));
    TellRanksApart([this](int64_t sender) {
      const auto shares =
          config_.assumed != nullptr ? config_.assumed->SharesOf(config_.block, sender) : std::span<const double>();
      return std::vector<double>(shares.begin(), shares.end());
    });
  }

  Tensor Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) override {
    TWOFOLD_CHECK(ctx.routed != nullptr, "the mixture says whose rows these are");
    saved.rows.assign(ctx.routed->rows.begin(), ctx.routed->rows.end());
    for (const int64_t n : ArrivingRows(ctx, x.dim(0) / config_.top_k)) saved.rows.push_back(n);
    const Rows rows = RowsOf(saved);
    Tensor arrived = Send(ctx, x, rows);
    saved[kPlaces] = PlacesOf(ctx, rows);
    arrived = InOrder(ctx, std::exchange(arrived, Tensor()), saved[kPlaces]);
    const Counts by_expert = rows.ByExpert();
    const nn::Routed routed{.rows = by_expert, .counts = Tensor()};
    nn::Context inner = ctx;
    inner.routed = &routed;
    Tensor y = Apply(0, inner, std::exchange(arrived, Tensor()), saved);
    y = Return(ctx, std::exchange(y, Tensor()), saved[kPlaces], rows);
    if (!ctx.for_backward) saved[kPlaces] = Tensor();
    return y;
  }
  std::string_view kind() const override { return kExpertsKind; }

 protected:
  Tensor Propagate(const Backprop& back, Tensor dy) override {
    const Rows rows = RowsOf(back.saved);
    const Tensor places = back.saved.Take(kPlaces);
    Tensor arrived = Send(back.ctx, std::exchange(dy, Tensor()), rows);
    arrived = InOrder(back.ctx, std::exchange(arrived, Tensor()), places);
    Tensor dx = back(0, std::exchange(arrived, Tensor()));
    dx = Return(back.ctx, std::exchange(dx, Tensor()), places, rows);
    back.saved.rows.clear();
    return dx;
  }

 private:
  enum Slot { kPlaces };

  Rows RowsOf(const nn::Saved& saved) const {
    const std::span<const int64_t> all = saved.rows;
    const auto experts = static_cast<size_t>(config_.experts);
    return {.own = all.first(experts), .arriving = all.subspan(experts), .local = local_};
  }

  // By sender, then by this rank's experts.
  Counts ArrivingRows(nn::Context& ctx, int64_t tokens) {
    if (groups_.experts.size() == 1) return {ctx.routed->rows.begin(), ctx.routed->rows.end()};
    Assume(tokens);
    Tensor counts = ctx.Activation(Shape{config_.experts}, DType::kI32);
    groups_.experts.AllToAll(counts, ctx.routed->counts).WaitOn(ctx.stream);
    Counts assumed;
    for (int sender = 0; sender < groups_.experts.size(); ++sender) {
      const Counts& all = assumed_[assumed_.size() == 1 ? 0 : static_cast<size_t>(sender)];
      const auto first = all.begin() + groups_.experts.rank() * local_;
      assumed.insert(assumed.end(), first, first + local_);
    }
    return nn::ReadCounts(ctx, counts, std::move(assumed));
  }

  // Finds what is assumed of so many tokens of each rank, and tells ranks apart by it. Most calls find it known.
  void Assume(int64_t tokens) {
    if (std::exchange(tokens_, tokens) == tokens) return;
    assumed_.clear();
    const bool alike = config_.assumed == nullptr || !config_.assumed->ranks_differ();
    for (const int sender : groups_.experts.ranks()) {
      assumed_.push_back(config_.AssumedChoices(sender, tokens));
      if (alike) break;
    }
    TellRanksApart([this, tokens](int64_t sender) { return config_.AssumedChoices(sender, tokens); });
  }

  // If rows are assumed, ranks differ by what they send and what arrives there. `of`: by sender, what says how many of
  // its rows each expert gets.
  template <class Of>
  void TellRanksApart(Of of) {
    ProcessGroup& group = groups_.experts;
    if (group.size() == 1) return;
    std::vector<decltype(of(0))> sent;
    for (const int sender : group.ranks()) sent.push_back(of(sender));
    const bool alike = std::all_of(sent.begin(), sent.end(), [&](const auto& s) { return s == sent[0]; });
    std::map<decltype(sent), int> numbers;
    std::vector<int> kinds;
    for (size_t r = 0; r < sent.size(); ++r) {
      decltype(sent) all;
      if (!alike) all.push_back(sent[r]);
      for (size_t s = 0; s < (alike ? 1 : sent.size()); ++s) {
        if (sent[s].empty()) continue;  // equal shares
        const auto first = sent[s].begin() + static_cast<int64_t>(r) * local_;
        all.emplace_back(first, first + local_);
      }
      kinds.push_back(numbers.try_emplace(std::move(all), static_cast<int>(numbers.size())).first->second);
    }
    group.RanksDiffer(kinds, "ranks get different numbers of tokens for their experts");
  }

  // Sends rows to the ranks of their experts.
  Tensor Send(nn::Context& ctx, const Tensor& x, const Rows& rows) const {
    if (groups_.experts.size() == 1) return x;
    Tensor out = ctx.Activation(Shape{Sum(rows.arriving), x.dim(1)}, x.dtype());
    groups_.experts.AllToAllV(out, SumsOf(rows.arriving, local_, x.dim(1)), x, SumsOf(rows.own, local_, x.dim(1)))
        .WaitOn(ctx.stream);
    return out;
  }

  // Null if rows arrive in the order of experts.
  Tensor PlacesOf(nn::Context& ctx, const Rows& rows) const {
    if (groups_.experts.size() == 1 || local_ == 1) return {};
    Tensor places = ctx.Activation(Shape{Sum(rows.arriving), 1}, DType::kI32);
    ctx.device.Upload(places, [&rows](std::span<std::byte> bytes) {
      rows.PutPlaces({reinterpret_cast<int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)});
    });
    return places;
  }

  static Tensor InOrder(nn::Context& ctx, Tensor arrived, const Tensor& places) {
    if (places.empty() || arrived.numel() == 0) return arrived;
    const ops::Choices choices{.experts = places, .places = places};
    Tensor ordered = ctx.Activation(arrived.shape(), arrived.dtype());
    ctx.Launch(ops::Dispatch{.x = arrived, .choices = choices, .slots = ordered});
    return ordered;
  }

  // Sums results over tp, and sends them back to the ranks that their rows came from.
  Tensor Return(nn::Context& ctx, Tensor y, const Tensor& places, const Rows& rows) const {
    if (groups_.tensor.size() > 1) groups_.tensor.AllReduce(y, ReduceOp::kSum).WaitOn(ctx.stream);
    if (groups_.experts.size() == 1) return y;
    if (!places.empty() && y.numel() > 0) {
      const ops::Choices choices{.experts = places, .places = places};
      Tensor arrived = ctx.Activation(y.shape(), y.dtype());
      ctx.Launch(ops::Combine{.slots = std::exchange(y, Tensor()), .choices = choices, .y = arrived});
      y = std::move(arrived);
    }
    Tensor out = ctx.Activation(Shape{Sum(rows.own), y.dim(1)}, y.dtype());
    groups_.experts.AllToAllV(out, SumsOf(rows.own, local_, y.dim(1)), y, SumsOf(rows.arriving, local_, y.dim(1)))
        .WaitOn(ctx.stream);
    return out;
  }

  const nn::MixtureConfig config_;
  const ExpertGroups groups_;
  const int64_t local_;          // experts of a rank
  int64_t tokens_ = -1;          // of the last call
  std::vector<Counts> assumed_;  // of these tokens, by expert: for each sender, or one for all
};

}  // namespace

std::unique_ptr<nn::Module> MakeDroplessExperts(const nn::MixtureConfig& config, const ExpertGroups& groups,
                                                std::unique_ptr<nn::Module> experts) {
  TWOFOLD_CHECK(!groups.sequence_parallel || groups.tensor.size() == 1,
                "ranks along tp have the same rows; the spec was validated");
  return std::make_unique<DroplessExperts>(config, groups, std::move(experts));
}

}  // namespace twofold
