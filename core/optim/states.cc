#include "core/optim/states.h"

#include <algorithm>

namespace twofold::optim {
namespace {

constexpr int64_t kAlign = 128;  // elements: slices begin at multiples of it in flat tensors

int64_t RoundUp(int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }
int64_t ChunkOf(int64_t elements) { return std::clamp<int64_t>(RoundUp(elements / 16), 1 << 18, 1 << 22); }

}  // namespace

void States::Attach(nn::Context& ctx, std::span<const Slice> slices, double weight_decay) {
  TWOFOLD_CHECK(slices_.empty(), "slices are attached once");
  slices_.assign(slices.begin(), slices.end());
  if (!offload_.state)
    AttachOnDevice(ctx, weight_decay);
  else
    AttachOnHost(ctx, weight_decay);
}

void States::AttachOnDevice(nn::Context& ctx, double weight_decay) {
  for (const Slice& slice : slices_) {
    Piece& piece = whole_.emplace_back(
        Piece{.data = slice.data, .gradient = slice.gradient, .decay = DecayOf(slice, weight_decay)});
    piece.rounding_keys = RoundingKeys(slice, 0, slice.data.numel());
    for (const std::string& name : names_) {
      const OwnerScope of(ctx.owners(), {.module = slice.name, .tensor = name});
      piece.moments.push_back(NewMoment(ctx, slice));
    }
    const OwnerScope of(ctx.owners(), {.module = slice.name, .tensor = "master"});
    if (low_precision_.kind == LowPrecisionUpdate::kMaster) piece.master = NewMaster(ctx, slice);
  }
}

void States::AttachOnHost(nn::Context& ctx, double weight_decay) {
  staging_ = std::make_unique<ChunkStaging>(ctx.device, Category::kOptimizerState);
  std::vector<int64_t> starts;
  int64_t elements = 0;
  for (const Slice& slice : slices_) {
    TWOFOLD_CHECK(slice.data.dtype() == slices_[0].data.dtype(),
                  slice.name + " has another type than the slices before it");
    starts.push_back(elements);
    elements += RoundUp(slice.data.numel());
  }
  chunk_ = offload_.chunk > 0 ? offload_.chunk : ChunkOf(elements);
  const DType wide = slices_.empty() ? DType::kF32 : ops::AccumulationType(slices_[0].data.dtype());
  const bool narrow =
      low_precision_.kind == LowPrecisionUpdate::kMaster && !slices_.empty() && slices_[0].data.dtype() != wide;
  for (size_t k = 0; k < names_.size() + (narrow ? 1 : 0); ++k) {
    flat_.push_back(ctx.device.NewHostTensor(Shape{elements}, wide, Category::kOptimizerState));
  }
  for (size_t i = 0; i < slices_.size(); ++i) {
    Piece& piece = whole_.emplace_back();
    const auto kind = [&](size_t k) { return flat_[k].Slice(starts[i], slices_[i].data.shape()); };
    for (size_t k = 0; k < names_.size(); ++k) piece.moments.push_back(kind(k));
    if (narrow) piece.master = kind(names_.size());
  }
  MakePlaces(starts, weight_decay);
  Begin(ctx);
}

// Cuts the flat axis into chunks of equal size, regardless of where slices begin.
void States::MakePlaces(const std::vector<int64_t>& starts, double weight_decay) {
  for (size_t i = 0; i < slices_.size(); ++i) {
    const int64_t numel = slices_[i].data.numel();
    for (int64_t first = 0; first < numel;) {
      const int64_t at = (starts[i] + first) % chunk_;
      const auto chunk = static_cast<size_t>((starts[i] + first) / chunk_);
      const int64_t count = std::min(numel - first, chunk_ - at);
      chunks_.resize(std::max(chunks_.size(), chunk + 1));
      chunks_[chunk].push_back({i, first, count, at, DecayOf(PartOf(slices_[i], first, count), weight_decay),
                                RoundingKeys(slices_[i], first, count)});
      first += count;
    }
  }
}

ops::RoundingKeys States::RoundingKeys(const Slice& slice, int64_t first, int64_t count) const {
  return low_precision_.kind == LowPrecisionUpdate::kStochastic
             ? RoundingKeysOf(slice, first, count, low_precision_.seed)
             : nullptr;
}

// Initial values (zeros, and masters from the slices) are made on the device and copied back.
void States::Begin(nn::Context& ctx) {
  std::vector<Chunk> chunks;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    Chunk& chunk = chunks.emplace_back(Kinds(c, /*brings=*/false));
    for (const Place& p : chunks_[c]) chunk.push_back({.home = slices_[p.slice].data.Slice(p.first, p.count)});
  }
  staging_->Run(chunks, [&](size_t c, std::span<const Tensor> visitors) {
    for (size_t k = 0; k < flat_.size(); ++k) ctx.Launch(ops::Fill{.out = visitors[k], .value = 0});
    if (flat_.size() == names_.size()) return;
    const Tensor& master = visitors[names_.size()];
    for (size_t i = 0; i < chunks_[c].size(); ++i) {
      const Place& p = chunks_[c][i];
      ctx.Launch(ops::Cast{.in = visitors[flat_.size() + i], .out = master.Slice(p.at, p.count)});
    }
  });
}

// The same chunk of each kind.
Chunk States::Kinds(size_t chunk, bool brings) const {
  Chunk visitors;
  const int64_t first = static_cast<int64_t>(chunk) * chunk_;
  for (const Tensor& kind : flat_) {
    visitors.push_back({kind.Slice(first, std::min(chunk_, kind.numel() - first)), brings, /*goes_back=*/true});
  }
  return visitors;
}

void States::Update(absl::FunctionRef<void(const Piece&)> update) {
  if (!offload_.state) {
    for (const Piece& piece : whole_) {
      if (piece.data.numel() > 0) update(piece);
    }
    return;
  }
  std::vector<Chunk> chunks;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    Chunk& chunk = chunks.emplace_back(Kinds(c, /*brings=*/true));
    for (const Place& p : chunks_[c]) {
      chunk.push_back({.home = slices_[p.slice].data.Slice(p.first, p.count), .goes_back = true});
      chunk.push_back({.home = slices_[p.slice].gradient.Slice(p.first, p.count)});
    }
  }
  staging_->Run(chunks, [&](size_t c, std::span<const Tensor> visitors) {
    for (size_t i = 0; i < chunks_[c].size(); ++i) {
      const Place& p = chunks_[c][i];
      const auto kind = [&](size_t k) { return visitors[k].Slice(p.at, p.count); };
      Piece piece{.data = visitors[flat_.size() + 2 * i],
                  .gradient = visitors[flat_.size() + 2 * i + 1],
                  .decay = p.decay,
                  .rounding_keys = p.rounding_keys};
      for (size_t k = 0; k < names_.size(); ++k) piece.moments.push_back(kind(k));
      if (flat_.size() > names_.size()) piece.master = kind(names_.size());
      update(piece);
    }
  });
}

std::vector<State> States::Of(size_t slice) const {
  std::vector<State> states;
  for (size_t k = 0; k < names_.size(); ++k) states.push_back({names_[k], whole_[slice].moments[k]});
  if (!whole_[slice].master.empty()) states.push_back({"master", whole_[slice].master});
  return states;
}

std::vector<StateShape> States::ShapesOf(const nn::Parameter& parameter) const {
  std::vector<StateShape> shapes;
  for (const std::string& name : names_) shapes.push_back({name, parameter.shard_layout().whole});
  return shapes;
}

}  // namespace twofold::optim
