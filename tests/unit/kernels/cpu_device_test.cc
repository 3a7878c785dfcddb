#include "kernels/cpu/cpu_device.h"

#include <chrono>
#include <future>
#include <thread>

#include "core/device/transfers.h"
#include "tests/tries.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace cpu_device_test {

TEST(CpuDevice, MovesBytes) {
  Lab lab(1, 3);
  Tensor t = lab.Blank({3}, DType::kF32);
  const float values[] = {1, 2, 3};
  lab.device.Upload(t, [&](std::span<std::byte> to) { std::memcpy(to.data(), values, to.size()); });
  EXPECT_EQ(ValuesOf(t), (Values{1, 2, 3}));
  float back[3];
  lab.device.Download(t, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back[2], 3);
}

TEST(CpuDevice, ItemReadsEveryFloatTypeAndIgnoresTheStandIn) {
  Lab lab(1, 0);
  for (DType t : kFloats) EXPECT_EQ(lab.device.Item(lab.Of({1}, t, {1.5}), {99, "loss"}), 1.5);
}

// It sleeps for 99 times as long as it has worked, which is at least what writing 4 MB takes; the observer sees both.
TEST(CpuDevice, ASlowedOneSleepsAfterItsOperations) {
  Lab lab(1, 0);
  double seconds = 0;
  lab.device.SetObserver([&](const ops::Op&, double start, double end) { seconds += end - start; });
  Tensor t = lab.Blank({1 << 20}, DType::kF32);
  lab.device.SlowDown(100);
  lab.device.Launch(lab.device.compute(), ops::Fill{.out = t, .value = 1});
  EXPECT_GT(seconds, 4e-3);
}

// An event that happens when it is waited for.
class LateEvent : public Event::State {
 public:
  bool Done() override { return happened_; }
  void Wait() override {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    while (std::chrono::steady_clock::now() < until) {
    }
    happened_ = true;
  }
  bool happened_ = false;
};

TEST(CpuDevice, StreamsWaitOnTheHostAndCountIt) {
  Lab lab(1, 0);
  const auto stream = lab.device.NewStream("communication");
  EXPECT_TRUE(stream->Record().Done());
  stream->WaitFor(stream->Record());
  EXPECT_EQ(stream->stalled().value(), 0);
  const auto late = std::make_shared<LateEvent>();
  stream->WaitFor(Event(late));
  EXPECT_TRUE(late->happened_);
  const double stalled = stream->stalled().value();
  EXPECT_GE(stalled, 0.002);
  stream->WaitFor(Event(late));  // it has happened
  EXPECT_EQ(stream->stalled().value(), stalled);
  EXPECT_EQ(lab.device.compute().stalled().value(), 0);
}

TEST(CpuDevice, StreamsRunAtOnce) {
  Lab lab(1, 0);
  const auto stream = lab.device.NewStream("side");
  const Tensor t = lab.Blank({2}, DType::kF32);
  lab.device.Launch(*stream, ops::Fill{t, 4});
  EXPECT_EQ(ValuesOf(t), (Values{4, 4}));
}

TEST(CpuDevice, TransfersGoOnBesideTheHost) {
  Lab lab(1, 0);
  const Tensor t = lab.Blank({1 << 20}, DType::kF32),
               host = lab.device.NewHostTensor(Shape{1 << 20}, DType::kF32, Category::kOther);
  lab.Run(ops::Fill{t, 3});
  const auto stream = lab.device.NewStream("side");
  // Held up until the host lets it go: a transfer that the host did, or waited for, would never end.
  std::promise<void> open;
  lab.device.SetTransferObserver(
      [&, opened = open.get_future().share()](std::string_view, Bytes, double, double) { opened.wait(); });
  const auto held = lab.device.NewStream("held");
  lab.device.SetTransferObserver(nullptr);
  lab.device.Transfer(*held, t, host);
  const Event first = held->Record();
  stream->WaitFor(first);
  lab.device.Transfer(*stream, host, t);
  const Event second = stream->Record();
  EXPECT_FALSE(first.Done());
  EXPECT_FALSE(second.Done());
  open.set_value();
  second.Wait();
  EXPECT_TRUE(first.Done());
  EXPECT_EQ(host.data<float>()[77], 3);
}

TEST(CpuDevice, TheComputeStreamCountsItsWaitsForTransfers) {
  Lab lab(1, 0);
  const Tensor t = lab.Blank({16}, DType::kF32),
               host = lab.device.NewHostTensor(Shape{16}, DType::kF32, Category::kOther);
  lab.device.SetTransferObserver(
      [](std::string_view, Bytes, double, double) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  TransferStream stream(lab.device, "side");
  EXPECT_TRUE(InSomeTry([&] {
    const double before = lab.device.compute().stalled().value();
    stream.Copy(t, host).WaitOn(lab.device.compute());
    return lab.device.compute().stalled().value() - before >= 0.003;
  }));
}

TEST(CpuDevice, EventsOutliveTheirStream) {
  Lab lab(1, 0);
  const Tensor t = lab.Blank({16}, DType::kF32),
               host = lab.device.NewHostTensor(Shape{16}, DType::kF32, Category::kOther);
  auto stream = lab.device.NewStream("side");
  lab.device.Transfer(*stream, t, host);
  const Event done = stream->Record();
  stream.reset();
  EXPECT_TRUE(done.Done());
}

TEST(CpuDeviceDeathTest, TransfersWantEqualSides) {
  Lab lab(1, 0);
  const auto stream = lab.device.NewStream("side");
  const Tensor t = lab.Blank({16}, DType::kF32);
  const auto host = [&](int64_t n, DType dtype) { return lab.device.NewHostTensor(Shape{n}, dtype, Category::kOther); };
  EXPECT_DEATH(lab.device.Transfer(*stream, t, host(16, DType::kI32)), "f32\\[16\\] and i32\\[16\\] differ in type");
  EXPECT_DEATH(lab.device.Transfer(*stream, t, host(15, DType::kF32)), "16 .*15");
  EXPECT_DEATH(lab.device.Transfer(lab.device.compute(), t, host(16, DType::kF32)), "a stream of their own");
  TransferStream transfers(lab.device, "side");
  EXPECT_DEATH(transfers.Copy(t, t), "between the device's memory and the host's");
}

TEST(CpuDevice, ObserverSeesEachOperation) {
  Lab lab(1, 0);
  std::vector<std::string> seen;
  double last = 0;
  lab.device.SetObserver([&](const ops::Op& op, double start, double end) {
    seen.emplace_back(ops::Key(op).name);
    EXPECT_LE(last, start);
    EXPECT_LE(start, end);
    last = end;
  });
  const Tensor t = lab.Blank({2}, DType::kF32);
  lab.Run(ops::Fill{t, 4});
  lab.Run(ops::Scale{t, 2, Tensor()});
  lab.device.SetObserver(nullptr);
  lab.Run(ops::Fill{t, 1});
  EXPECT_THAT(seen, testing::ElementsAre("fill", "scale"));
}

TEST(CpuDevice, WorkspaceIsGivenBack) {
  Lab lab(1, 0);
  const Tensor a = lab.Normal({64, 64}, DType::kBF16), out = lab.Blank({64, 64}, DType::kBF16);
  const MemoryStats before = lab.device.allocator().ledger().stats();
  const ops::Op op = ops::MatMul{a, a, out, Tensor()};
  lab.Run(op);
  const MemoryStats after = lab.device.allocator().ledger().stats();
  EXPECT_EQ(after.live.value(), before.live.value());
  EXPECT_EQ(after.peak - before.live, ops::Workspace(op, DeviceKind::kCpu, 1));
}

TEST(CpuDevice, IsHostMemoryOnACpu) {
  Lab lab(3, 0);
  EXPECT_EQ(lab.device.kind(), DeviceKind::kCpu);
  EXPECT_EQ(lab.device.threads(), 3);
}

}  // namespace cpu_device_test
}  // namespace twofold
