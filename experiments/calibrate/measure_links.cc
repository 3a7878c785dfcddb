#include "experiments/calibrate/measure_links.h"

#include <functional>

#include "experiments/calibrate/samples.h"

namespace twofold::calibrate {
namespace {

// Buffers in turn, so that what is sent does not stand in a core's own cache.
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

class LinkTimer {
 public:
  explicit LinkTimer(RankContext& ctx) : ctx_(ctx), buffers_(ctx.device()), samples_(LinkRows::kRows) {}

  void Round() {
    ProcessGroup& world = ctx_.world();
    const int rank = world.rank(), size = world.size();
    constexpr int kCalls = 50;
    Tensor tiny = buffers_.In(Bytes(8));
    Time(LinkRows::kLatency, kCalls, [&] { world.AllReduce(tiny).Wait(); });

    Tensor in = buffers_.In(kMessage), out = buffers_.Out(kMessage);
    if (rank == 0) Time(LinkRows::kOneCopier, 1, [&] { world.Send(in, 1).Wait(); });
    else if (rank == 1) Time(LinkRows::kOneCopier, 1, [&] { world.Recv(out, 0).Wait(); });
    else ctx_.world().Barrier().Wait();

    const Bytes all = Bytes(kMessage.value() / 4 / size * size * 4);
    Tensor from = buffers_.In(all), to = buffers_.Out(all);
    Time(LinkRows::kAllCopy, 1, [&] { world.AllToAll(to, from).Wait(); });

    for (size_t i = 0; i < std::size(kCheckSizes); ++i) {
      Tensor t = buffers_.In(kCheckSizes[i]);
      Time(LinkRows::kAllReduce + i, 1, [&] { world.AllReduce(t).Wait(); });
      const int64_t shard = kCheckSizes[i].value() / 4 / size;
      const Tensor part = buffers_.In(Bytes(shard * 4));
      Tensor whole = buffers_.Out(Bytes(shard * 4 * size));
      Time(LinkRows::kAllGather + i, 1, [&] { world.AllGather(whole, part).Wait(); });
    }
  }
  const Samples& samples() const { return samples_; }
  void Forget() { samples_.assign(LinkRows::kRows, {}); }

 private:
  void Time(size_t row, int calls, const std::function<void()>& call) {
    ctx_.CheckInterrupt();
    ctx_.world().Barrier().Wait();
    const Seconds start = ctx_.clock().Now();
    for (int i = 0; i < calls; ++i) call();
    samples_[row].push_back((ctx_.clock().Now() - start).value() / calls);
  }

  RankContext& ctx_;
  Buffers buffers_;
  Samples samples_;
};

}  // namespace

std::string MeasureLinks(RankContext& ctx, int rounds) {
  LinkTimer timer(ctx);
  timer.Round();  // first touch
  timer.Forget();
  for (int i = 0; i < rounds; ++i) timer.Round();
  return Pack(timer.samples());
}

}  // namespace twofold::calibrate
