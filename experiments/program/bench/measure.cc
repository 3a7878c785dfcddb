#include "experiments/program/bench/measure.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "experiments/program/bench/expectation.h"

namespace twofold::bench {
namespace {

// Calls in flight at once.
constexpr size_t kMostSmall = 8, kMostLarge = 2;
constexpr int64_t kSmall = 1 << 20;  // bytes

// One rank's figures for one size, as sent to rank 0. Negative: absent.
struct Packed {
  struct Variant {
    double seconds = -1;
    int64_t wrong = -1;
  } out_of_place, in_place;
};

std::string Pack(const std::vector<Packed>& figures) {
  return std::string(reinterpret_cast<const char*>(figures.data()), figures.size() * sizeof(Packed));
}

std::vector<Packed> Unpack(const std::string& bytes) {
  std::vector<Packed> figures(bytes.size() / sizeof(Packed));
  if (!figures.empty()) std::memcpy(figures.data(), bytes.data(), figures.size() * sizeof(Packed));
  return figures;
}

struct Operands {
  Tensor in, out;
};

class Rank {
 public:
  Rank(RankContext& ctx, const Request& request) : ctx_(ctx), request_(request), op_(*request.operation) {
    if (request.check)
      expectation_.emplace(op_, request.dtype, request.reduce, request.root, ctx.world_size(), ctx.rank());
  }

  Packed Measure(int64_t block) {
    Packed figures;
    {
      Operands operands = Allocate(block);
      if (op_.out_of_place) figures.out_of_place = MeasureOn(operands, block);
      if (op_.in_place) figures.in_place = MeasureOn(InPlace(operands, block), block);
    }
    ctx_.device().allocator().ReleaseCached();
    return figures;
  }

 private:
  Tensor NewTensor(Operation::Side side, int64_t block) {
    if (side == Operation::kWholeAtRoot && ctx_.rank() != request_.root) return Tensor();
    const int64_t count = side == Operation::kBlock ? block : WholeCount(op_, block, ctx_.world_size());
    return ctx_.device().NewTensor(Shape{count}, request_.dtype, Category::kCommunication);
  }
  bool OneTensor() const { return !op_.out_of_place; }

  Operands Allocate(int64_t block) {
    Operands o;
    o.in = NewTensor(op_.in, block);
    o.out = OneTensor() ? o.in : NewTensor(op_.out, block);
    return o;
  }

  // The same operands with the block in its place in the whole tensor.
  Operands InPlace(Operands o, int64_t block) const {
    if (OneTensor()) return o;
    if (op_.in == Operation::kBlock)
      o.in = o.out.Slice(ctx_.rank() * block, block);
    else
      o.out = o.in.Slice(ctx_.rank() * block, block);
    return o;
  }

  Work Start(Operands& o) {
    ProcessGroup& world = ctx_.world();
    const int n = world.size(), next = (world.rank() + 1) % n, previous = (world.rank() + n - 1) % n;
    switch (op_.kind) {
      case Communication::kAllReduce: return world.AllReduce(o.out, request_.reduce);
      case Communication::kAllGather: return world.AllGather(o.out, o.in);
      case Communication::kReduceScatter: return world.ReduceScatter(o.out, o.in, request_.reduce);
      case Communication::kBroadcast: return world.Broadcast(o.out, request_.root);
      case Communication::kReduce: return world.Reduce(o.out, request_.reduce, request_.root);
      case Communication::kGather: return world.Gather(o.out, o.in, request_.root);
      case Communication::kScatter: return world.Scatter(o.out, o.in, request_.root);
      case Communication::kAllToAll: return world.AllToAll(o.out, o.in);
      case Communication::kBatch:
        return world.Batch(std::array{P2p{P2p::kSend, o.in, next}, P2p{P2p::kRecv, o.out, previous}});
      case Communication::kSend:
      case Communication::kRecv:
      case Communication::kAllToAllV: break;
      case Communication::kBarrier: break;
    }
    TWOFOLD_CHECK(false, "an operation of the table");
    return Work();
  }

  void Call(Operands& operands) {
    ctx_.CheckInterrupt();
    Start(operands).Wait();
  }

  // `count` calls, one issued while the ones before it run, unless Request::wait.
  void Calls(Operands& operands, int count) {
    const Tensor& whole = operands.out.bytes() > operands.in.bytes() ? operands.out : operands.in;
    const size_t most = request_.wait ? 1 : whole.bytes().value() <= kSmall ? kMostSmall : kMostLarge;
    std::deque<Work> running;
    for (int i = 0; i < count; ++i) {
      ctx_.CheckInterrupt();
      running.push_back(Start(operands));
      if (running.size() < most) continue;
      running.front().Wait();
      running.pop_front();
    }
    for (Work& work : running) work.Wait();
  }

  void SetToZero(Tensor& t) {
    if (t.empty()) return;
    ctx_.device().Upload(t, [](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); });
  }

  Packed::Variant MeasureOn(Operands operands, int64_t block) {
    SetToZero(operands.in), SetToZero(operands.out);
    Packed::Variant figures;
    figures.seconds = Time(operands);
    if (request_.check) figures.wrong = Check(operands, block);
    return figures;
  }

  double Time(Operands& operands) {
    ctx_.device().compute().Synchronize();
    Calls(operands, request_.warmup);
    ctx_.world().Barrier().Wait();
    const Seconds start = ctx_.clock().Now();
    Calls(operands, request_.iterations);
    return (ctx_.clock().Now() - start).value() / request_.iterations;
  }

  int64_t Check(Operands& operands, int64_t block) {
    SetToZero(operands.out);
    expectation_->FillInput(ctx_.device(), operands.in);
    Call(operands);
    return expectation_->CountWrong(ctx_.device(), operands.out, block);
  }

  RankContext& ctx_;
  const Request& request_;
  const Operation& op_;
  std::optional<Expectation> expectation_;  // only if results are checked: making it takes longer than many predictions
};

// `kept`: the unpacked results.
std::optional<Timing> Combine(const RankResults& results, const std::vector<std::vector<Packed>>& kept, size_t size,
                              Packed::Variant Packed::*variant, bool last_rank) {
  Timing timing;
  double sum = 0, last = 0;
  for (size_t r = 0; r < results.size(); ++r) {
    const Packed::Variant& v = kept[results.which(r)][size].*variant;
    if (v.seconds < 0) return std::nullopt;
    sum += v.seconds;
    last = std::max(last, v.seconds);
    if (v.wrong >= 0) timing.wrong = timing.wrong.value_or(0) + v.wrong;
  }
  timing.seconds = last_rank ? last : sum / static_cast<double>(results.size());
  return timing;
}

}  // namespace

std::string MeasureRank(RankContext& ctx, const Request& request) {
  Rank rank(ctx, request);
  std::vector<Packed> figures;
  for (size_t i = 0; i < request.blocks.size(); ++i) {
    if (ctx.rank() == 0 && request.progress) request.progress(i);
    figures.push_back(rank.Measure(request.blocks[i]));
    ctx.SetPartialResult(Pack(figures));
  }
  return Pack(figures);
}

std::vector<Row> CombineRanks(const Request& request, const RankResults& results) {
  std::vector<std::vector<Packed>> kept;
  for (const std::string& bytes : results.kept()) kept.push_back(Unpack(bytes));
  size_t done = results.empty() ? 0 : request.blocks.size();
  for (const auto& figures : kept) done = std::min(done, figures.size());
  const auto n = static_cast<int>(results.size());
  std::vector<Row> rows;
  for (size_t i = 0; i < done; ++i) {
    const int64_t block = request.blocks[i];
    rows.push_back({.bytes = WholeCount(*request.operation, block, n) * ElementSize(request.dtype),
                    .block = block,
                    .out_of_place = Combine(results, kept, i, &Packed::out_of_place, request.last_rank),
                    .in_place = Combine(results, kept, i, &Packed::in_place, request.last_rank)});
  }
  return rows;
}

}  // namespace twofold::bench
