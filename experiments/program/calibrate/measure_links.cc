#include "experiments/program/calibrate/measure_links.h"

#include <algorithm>
#include <functional>

namespace twofold::calibrate {
namespace {

// Buffers in turn, so that the data to send is not in a core's private cache.
class Buffers {
 public:
  explicit Buffers(Device& device) {
    constexpr Bytes kAll = MiB(64);
    for (Tensor* t : {&in_, &out_}) {
      *t = device.NewTensor(Shape{kAll.value() / 4}, DType::kF32, Category::kCommunication);
      device.Launch(device.compute(), ops::Fill{.out = *t, .value = 0});  // zeros stay zeros, however often summed
    }
  }
  Tensor In(Bytes size) { return Next(in_, size); }
  Tensor Out(Bytes size) { return Next(out_, size); }

 private:
  Tensor Next(const Tensor& all, Bytes size) {
    const int64_t count = size.value() / 4;
    if (next_ + count > all.numel()) next_ = 0;
    const Tensor t = all.Slice(next_, count);
    next_ += count;
    return t;
  }
  Tensor in_, out_;
  int64_t next_ = 0;
};

// Elements for a collective of about `size` bytes: a number that the ranks can share evenly.
int64_t ElementsOf(Bytes size, int ranks) { return std::max<int64_t>(1, size.value() / 4 / ranks) * ranks; }

class LinkTimer {
 public:
  LinkTimer(RankContext& ctx, size_t rows) : ctx_(ctx), world_(ctx.world()), buffers_(ctx.device()), samples_(rows) {}

  void Links() {
    const int rank = world_.rank();
    Tensor tiny = buffers_.In(Bytes(8));
    Time(LinkRows::kLatency, 50, [&] { world_.AllReduce(tiny).Wait(); });

    Tensor in = buffers_.In(kMessage), out = buffers_.Out(kMessage);
    if (rank == 0)
      Time(LinkRows::kOneCopier, 1, [&] { world_.Send(in, 1).Wait(); });
    else if (rank == 1)
      Time(LinkRows::kOneCopier, 1, [&] { world_.Recv(out, 0).Wait(); });
    else
      world_.Barrier().Wait();

    const Bytes all = Bytes(ElementsOf(kMessage, world_.size()) * 4);
    Tensor from = buffers_.In(all), to = buffers_.Out(all);
    Time(LinkRows::kAllCopy, 1, [&] { world_.AllToAll(to, from).Wait(); });
  }
  void Collectives(size_t row) {
    for (const Communication::Kind kind : kCollectives) {
      for (const Bytes size : kCollectiveSizes) Collective(row++, kind, size);
    }
  }
  const Samples& samples() const { return samples_; }
  void Forget() { samples_.assign(samples_.size(), {}); }

 private:
  void Collective(size_t row, Communication::Kind kind, Bytes size) {
    const int64_t elements = ElementsOf(size, world_.size());
    const int calls = size <= KiB(64) ? 10 : 1;
    Tensor whole = buffers_.In(Bytes(elements * 4)), part = buffers_.Out(Bytes(elements / world_.size() * 4));
    switch (kind) {
      case Communication::kAllReduce: return Time(row, calls, [&] { world_.AllReduce(whole).Wait(); });
      case Communication::kAllGather: return Time(row, calls, [&] { world_.AllGather(whole, part).Wait(); });
      case Communication::kReduceScatter: return Time(row, calls, [&] { world_.ReduceScatter(part, whole).Wait(); });
      case Communication::kBroadcast: return Time(row, calls, [&] { world_.Broadcast(whole, 0).Wait(); });
      default: TWOFOLD_CHECK(false, "a collective that is measured");
    }
  }
  void Time(size_t row, int calls, const std::function<void()>& call) {
    ctx_.CheckInterrupt();
    world_.Barrier().Wait();
    const Seconds start = ctx_.clock().Now();
    for (int i = 0; i < calls; ++i) call();
    samples_[row].push_back((ctx_.clock().Now() - start).value() / calls);
  }

  RankContext& ctx_;
  ProcessGroup& world_;
  Buffers buffers_;
  Samples samples_;
};

}  // namespace

std::string MeasureLinks(RankContext& ctx, int rounds) {
  LinkTimer timer(ctx, LinkRows::kRows);
  for (int i = 0; i <= rounds; ++i) {
    timer.Links();
    timer.Collectives(LinkRows::kCollective);
    if (i == 0) timer.Forget();  // first touch
  }
  return Pack(timer.samples());
}

Samples MeasureCollectives(RankContext& ctx, int rounds) {
  LinkTimer timer(ctx, LinkRows::kRows - LinkRows::kCollective);
  for (int i = 0; i <= rounds; ++i) {
    timer.Collectives(0);
    if (i == 0) timer.Forget();
  }
  return timer.samples();
}

std::vector<profile::MeasuredCollective> CollectivesFrom(const Samples& samples, size_t first, int ranks) {
  std::vector<profile::MeasuredCollective> all;
  size_t row = first;
  for (const Communication::Kind kind : kCollectives) {
    profile::MeasuredCollective& c = all.emplace_back();
    c.set_operation(std::string(KindName(kind)));
    c.set_ranks(ranks);
    for (const Bytes size : kCollectiveSizes) {
      const Spread spread = SpreadOf(samples[row++]);
      const int64_t bytes = ElementsOf(size, ranks) * 4;
      // too many ranks for so few bytes
      if (c.points_size() > 0 && bytes <= c.points(c.points_size() - 1).bytes()) continue;
      profile::CollectivePoint& p = *c.add_points();
      p.set_bytes(bytes);
      p.set_seconds(spread.median), p.set_low(spread.low), p.set_high(spread.high);
    }
  }
  return all;
}

}  // namespace twofold::calibrate
