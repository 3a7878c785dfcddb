#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <numeric>
#include <thread>

#include "core/base/errors.h"
#include "core/base/strings.h"
#include "core/device/transfers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/streams.h"
#include "tests/gpu/against_cpu.h"
#include "tests/gpu/gate.h"

namespace twofold {
namespace cuda_device_test {

using testing::HasSubstr;

// A device of a rank.
struct RankLab {
  explicit RankLab(int rank = 0, Bytes limit = Bytes(0))
      : source(0, limit), allocator(source, rank), device(allocator, host, 0, rank) {}
  Tensor Of(const std::vector<float>& values) {
    Tensor t = device.NewTensor({static_cast<int64_t>(values.size())}, DType::kF32, Category::kOther);
    device.Upload(
        t, [&values](std::span<std::byte> to) { std::ranges::copy(std::as_bytes(std::span(values)), to.begin()); });
    return t;
  }
  std::vector<float> ValuesOf(const Tensor& t) {
    std::vector<float> values(static_cast<size_t>(t.numel()));
    device.Download(t, std::as_writable_bytes(std::span(values)));
    return values;
  }
  cuda::GpuSource source;
  cuda::PinnedSource host_source{0};
  CachingAllocator allocator, host{host_source, 0, "host memory"};
  CudaDevice device;
};

std::vector<float> Numbers(int64_t n, float first = 1) {
  std::vector<float> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), first);
  return values;
}

// An event that is nobody's but the host's, and happens when it is waited for.
class LateEvent : public Event::State {
 public:
  explicit LateEvent(std::chrono::milliseconds late) : late_(late) {}
  bool Done() override { return happened_; }
  void Wait() override {
    std::this_thread::sleep_for(late_);
    happened_ = true;
  }

 private:
  const std::chrono::milliseconds late_;
  bool happened_ = false;
};

using CudaDeviceTest = GpuTest;

TEST_F(CudaDeviceTest, MovesBytesOfAnySize) {
  RankLab lab;
  for (const int64_t n : {0, 1, 3, 127, 1 << 19, (1 << 19) + 1, 3'000'001}) {
    const std::vector<float> values = Numbers(n);
    EXPECT_EQ(lab.ValuesOf(lab.Of(values)), values) << n;
  }
}

// Attention's backward pass reserves what the rule says, to the byte, whichever kernel runs it: the gradients of the
// scores where they fit (ops::AttentionBackward::score_limit), and not a byte of them where they do not.
TEST_F(CudaDeviceTest, ReservesTheRuleOfStoredScores) {
  constexpr int64_t kT = 256, kHeads = 4, kDim = 8, kScores = 2 * kHeads * kT * kT;
  constexpr int64_t kDelta = 4 * kHeads * kT, kSums = 4 * kHeads * kT * kDim, kEngine = 512;
  for (const auto& [limit, want] : {std::pair{int64_t{0}, kDelta + kSums + kEngine},
                                    {kScores - 1, kDelta + kSums + kEngine},
                                    {kScores, kDelta + kScores + kEngine}}) {
    RankLab lab;
    const auto zeros = [&lab](Shape shape, DType type) {
      Tensor t = lab.device.NewTensor(std::move(shape), type, Category::kOther);
      lab.device.Launch(lab.device.compute(), ops::Fill{t, 0});
      return t;
    };
    const ops::AttentionBackward o{.qkv = zeros({1, kT, 3 * kHeads * kDim}, DType::kBF16),
                                   .out = zeros({1, kT, kHeads * kDim}, DType::kBF16),
                                   .lse = zeros({1, kHeads, kT}, DType::kF32),
                                   .dout = zeros({1, kT, kHeads * kDim}, DType::kBF16),
                                   .dqkv = zeros({1, kT, 3 * kHeads * kDim}, DType::kBF16),
                                   .heads = kHeads,
                                   .kv_heads = kHeads,
                                   .score_limit = limit};
    const MemoryStats before = lab.allocator.ledger().stats();
    lab.device.Launch(lab.device.compute(), o);
    lab.device.compute().Synchronize();
    const MemoryStats after = lab.allocator.ledger().stats();
    EXPECT_EQ((after.peak - before.live).value(), want) << "limit " << limit;
    EXPECT_EQ(ops::Workspace(o, DeviceKind::kCuda, 1), Bytes(want)) << "limit " << limit;
    EXPECT_EQ(after.live.value(), before.live.value());
  }
}

TEST_F(CudaDeviceTest, HasTheCapabilityThatItsPropertiesSay) {
  const cuda::Capability capability = cuda::CapabilityOf(0);
  EXPECT_GE(capability.major, 8) << "kernels are compiled for no older one";
  EXPECT_THAT(FactsOfGpu(0).sizes,
              HasSubstr(StrCat("compute capability ", capability.major, ".", capability.minor, ",")));
  cuda::MakeCurrent(0);
  EXPECT_EQ(cuda::CapabilityOfCurrentGpu().major, capability.major);
  EXPECT_THROW(cuda::CapabilityOf(GpuCount()), cuda::CudaError);
}

TEST_F(CudaDeviceTest, UploadsOneAfterTheOtherKeepWhatTheyWereGiven) {
  RankLab lab;
  for (int i = 0; i < 8; ++i) lab.Of(Numbers(1));  // memory for both sides is there
  lab.device.compute().Synchronize();
  Gate gate(lab.device.compute());  // nothing has been copied when the host goes on
  std::vector<Tensor> tensors;
  for (int i = 0; i < 3; ++i) tensors.push_back(lab.Of(Numbers(1000, static_cast<float>(1000 * i))));
  gate.Open();
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(lab.ValuesOf(tensors[static_cast<size_t>(i)]), Numbers(1000, static_cast<float>(1000 * i)));
}

TEST_F(CudaDeviceTest, AnUploadAsksOnceAndWritesAPartOfATensorAlone) {
  RankLab lab;
  const Tensor t = lab.Of({1, 2, 3, 4, 5});
  Tensor part = t.Slice(1, 3);
  int asked = 0;
  lab.device.Upload(part, [&asked](std::span<std::byte> to) {
    ++asked;
    EXPECT_EQ(to.size(), 12u);
    std::fill(to.begin(), to.end(), std::byte{0});
  });
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(lab.ValuesOf(t), (std::vector<float>{1, 0, 0, 0, 5}));
  EXPECT_EQ(lab.ValuesOf(t.Slice(3, 2)), (std::vector<float>{0, 5}));
}

TEST_F(CudaDeviceTest, ItemReadsEveryFloatTypeAndIgnoresTheStandIn) {
  RankLab lab;
  const auto item = [&lab](auto value, DType type) {
    Tensor t = lab.device.NewTensor({1}, type, Category::kOther);
    lab.device.Upload(t, [&value](std::span<std::byte> to) { std::memcpy(to.data(), &value, to.size()); });
    return lab.device.Item(t, {99, "loss"});
  };
  EXPECT_EQ(item(1.5, DType::kF64), 1.5);
  EXPECT_EQ(item(1.5f, DType::kF32), 1.5);
  EXPECT_EQ(item(BF16(1.5f), DType::kBF16), 1.5);
  EXPECT_EQ(item(F16(1.5f), DType::kF16), 1.5);
}

TEST_F(CudaDeviceTest, LaunchReturnsAtOnceAndItemWaits) {
  RankLab lab;
  Tensor t = lab.Of({1});
  lab.device.compute().Synchronize();
  Gate gate(lab.device.compute());
  lab.device.Launch(lab.device.compute(), ops::Fill{t, 2});
  const Event done = lab.device.compute().Record();
  EXPECT_FALSE(done.Done());
  gate.Open();
  EXPECT_EQ(lab.device.Item(t, {99, "loss"}), 2);
  EXPECT_TRUE(done.Done());
}

TEST_F(CudaDeviceTest, AnEventIsThePointWhereItWasRecorded) {
  RankLab lab;
  Stream& compute = lab.device.compute();
  const Event before = compute.Record();
  before.Wait();
  Gate gate(compute);
  const Event after = compute.Record();
  EXPECT_TRUE(before.Done());
  EXPECT_FALSE(after.Done());
  gate.Open();
  after.Wait();
  EXPECT_TRUE(after.Done());
}

TEST_F(CudaDeviceTest, TransfersGoOnBesideTheComputeStream) {
  RankLab lab;
  const Tensor t = lab.Of(Numbers(1000));
  lab.device.compute().Synchronize();
  const Tensor host = lab.device.NewHostTensor({1000}, DType::kF32, Category::kOther);
  const auto side = lab.device.NewStream("side");
  Gate gate(lab.device.compute());
  lab.device.Transfer(*side, t, host);
  side->Synchronize();  // would wait for ever behind the compute stream
  EXPECT_EQ(host.data<float>()[999], 1000);
}

TEST_F(CudaDeviceTest, AStreamWaitsForAnotherWithoutTheHost) {
  RankLab lab;
  const Tensor t = lab.Of(Numbers(1000)), back = lab.Of(Numbers(1000, 0));
  lab.device.compute().Synchronize();
  const Tensor host = lab.device.NewHostTensor({1000}, DType::kF32, Category::kOther);
  std::fill_n(host.data<float>(), 1000, -1.0f);
  const auto out = lab.device.NewStream("out"), in = lab.device.NewStream("in");
  Gate gate(*out);
  lab.device.Transfer(*out, t, host);
  in->WaitFor(out->Record());
  lab.device.Transfer(*in, host, back);
  lab.device.compute().WaitFor(in->Record());
  EXPECT_FALSE(in->Record().Done());  // the host came here at once
  gate.Open();
  EXPECT_EQ(lab.ValuesOf(back), Numbers(1000));
}

TEST_F(CudaDeviceTest, DevicesOfRanksShareTheGpuAndWaitForEachOther) {
  RankLab a(0), b(1);
  const Tensor of_a = a.Of(Numbers(64)), of_b = b.Of(Numbers(64, 0));
  Gate gate(a.device.compute());
  b.device.compute().WaitFor(a.device.compute().Record());
  const Event done = b.device.compute().Record();
  EXPECT_FALSE(done.Done());
  gate.Open();
  done.Wait();
  EXPECT_EQ(a.ValuesOf(of_a), Numbers(64));
  EXPECT_EQ(b.ValuesOf(of_b), Numbers(64, 0));
}

TEST_F(CudaDeviceTest, StalledIsTheTimeThatAStreamWasIdle) {
  using std::chrono::milliseconds;
  RankLab lab;
  Stream& compute = lab.device.compute();
  const auto side = lab.device.NewStream("side");
  const Event over = side->Record();
  over.Wait();
  compute.WaitFor(over);
  EXPECT_EQ(compute.stalled(), Seconds(0));

  EXPECT_TRUE(InSomeTry([&] {
    const double before = compute.stalled().value();
    Gate gate(*side);
    compute.WaitFor(side->Record());
    std::this_thread::sleep_for(milliseconds(20));
    gate.Open();
    compute.Synchronize();
    return compute.stalled().value() - before >= 0.015;
  }));
  EXPECT_TRUE(InSomeTry([&] {  // of nobody's stream: the host waits
    const double before = compute.stalled().value();
    compute.WaitFor(Event(std::make_shared<LateEvent>(milliseconds(20))));
    compute.Synchronize();
    return compute.stalled().value() - before >= 0.015;
  }));
  EXPECT_EQ(side->stalled(), Seconds(0));
}

TEST_F(CudaDeviceTest, WhatAStreamDoesBeforeAWaitIsNoStall) {
  RankLab lab;
  Stream& compute = lab.device.compute();
  const auto side = lab.device.NewStream("side");
  EXPECT_TRUE(InSomeTry([&] {
    const double before = compute.stalled().value();
    Gate other(*side), busy(compute);
    compute.WaitFor(side->Record());
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    other.Open();
    side->Synchronize();
    busy.Open();
    compute.Synchronize();
    return compute.stalled().value() - before < 0.015;
  }));
}

TEST_F(CudaDeviceTest, EventsOutliveStreamAndDevice) {
  Event event;
  {
    RankLab lab;
    event = lab.device.NewStream("side")->Record();
  }
  EXPECT_TRUE(event.Done());
  event.Wait();
}

TEST_F(CudaDeviceTest, TransfersAreObservedWhenTheyAreDone) {
  constexpr double kClocksDiffer = 0.02;  // unless the host is held up while both are looked at
  struct Seen {
    std::string stream;
    int64_t bytes;
    double start, end;
  };
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  EXPECT_TRUE(InSomeTry([&] {
    RankLab lab;
    std::vector<Seen> seen;
    lab.device.SetTransferObserver([&seen](std::string_view stream, Bytes bytes) {
      return [&seen, stream = std::string(stream), bytes](double start, double end) {
        seen.push_back({stream, bytes.value(), start, end});
      };
    });
    const Tensor t = lab.Of(Numbers(1000)), host = lab.device.NewHostTensor({1000}, DType::kF32, Category::kOther);
    const double begin = now();
    TransferStream stream(lab.device, "out");
    stream.Copy(t, host).Wait();
    const double end = now();
    lab.device.TellObserved();
    lab.device.SetTransferObserver(nullptr);
    stream.Copy(t, host).Wait();
    EXPECT_EQ(seen.size(), 1u);
    if (seen.size() != 1) return false;
    EXPECT_EQ(seen[0].stream, "out");
    EXPECT_EQ(seen[0].bytes, 4000);
    EXPECT_LE(seen[0].start, seen[0].end);
    return seen[0].start >= begin - kClocksDiffer && seen[0].end <= end + kClocksDiffer;
  }));
}

// A GPU cannot end the program: what nobody's ids and targets lead to is NaN, up to the loss, and no other row's.
TEST_F(CudaDeviceTest, IdsAndTargetsThatAreNobodysGiveNaN) {
  RankLab lab;
  Device& d = lab.device;
  const auto ids = [&](std::vector<int32_t> values) {
    Tensor t = d.NewTensor({static_cast<int64_t>(values.size())}, DType::kI32, Category::kOther);
    d.Upload(t,
             [&values](std::span<std::byte> to) { std::ranges::copy(std::as_bytes(std::span(values)), to.begin()); });
    return t;
  };
  const auto nan_where = [&lab](const Tensor& t) {
    std::string text;
    for (const float v : lab.ValuesOf(t)) text += std::isnan(v) ? 'N' : '.';
    return text;
  };
  const auto rows = [&](int64_t n) { return d.NewTensor({n}, DType::kF32, Category::kOther); };
  const Tensor some = ids({1, -1, 3, 0, 2147483647}), table = lab.Of(Numbers(6)).View({3, 2}),
               out = rows(10).View({5, 2});
  d.Launch(d.compute(), ops::EmbeddingForward{.ids = some, .table = table, .out = out});
  EXPECT_EQ(nan_where(out), "..NNNN..NN");
  const Tensor gradient = rows(6).View({3, 2});
  d.Launch(d.compute(), ops::EmbeddingBackward{
                            .ids = some, .dy = lab.Of(std::vector<float>(10, 1)).View({5, 2}), .dtable = gradient});
  EXPECT_EQ(lab.ValuesOf(gradient), (std::vector<float>{1, 1, 1, 1, 0, 0}));
  const Tensor logits = lab.Of(Numbers(15)).View({5, 3}), losses = rows(5), lse = rows(5);
  d.Launch(d.compute(), ops::CrossEntropyForward{.logits = logits, .targets = some, .losses = losses, .lse = lse});
  EXPECT_EQ(nan_where(losses), ".NN.N");
  EXPECT_EQ(nan_where(lse), ".....");
}

TEST_F(CudaDeviceTest, OperationsAreObservedInOrder) {
  RankLab lab;
  std::vector<std::string> seen;
  double last = 0;
  lab.device.SetObserver([&](const ops::Op& op) {
    return [&seen, &last, name = std::string(ops::Key(op).name)](double start, double end) {
      seen.push_back(name);
      EXPECT_LE(last, start);
      EXPECT_LE(start, end);
      last = end;
    };
  });
  Tensor t = lab.Of({1, 2, 3});
  lab.device.Launch(lab.device.compute(), ops::Fill{t, 4});
  lab.device.Launch(lab.device.compute(), ops::Scale{t, 2, Tensor()});
  EXPECT_EQ(lab.ValuesOf(t), (std::vector<float>{8, 8, 8}));
  EXPECT_THAT(seen, testing::ElementsAre("fill", "scale"));
  lab.device.Launch(lab.device.compute(), ops::Fill{t, 5});
  lab.device.TellObserved();
  lab.device.SetObserver(nullptr);
  lab.device.Launch(lab.device.compute(), ops::Fill{t, 4});
  lab.device.TellObserved();
  EXPECT_EQ(seen.size(), 3u);
}

TEST_F(CudaDeviceTest, TooMuchMemoryIsAnErrorThatNamesTheRank) {
  RankLab lab(3, MiB(64));
  const auto ask = [&lab](int64_t bytes) -> std::string {
    try {
      lab.device.NewTensor({bytes}, DType::kU8, Category::kActivations);
    } catch (const OutOfMemory& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(ask(32 << 20), "");
  EXPECT_THAT(ask(65 << 20), HasSubstr("rank 3"));
  RankLab unbounded(4);
  try {
    unbounded.device.NewTensor({int64_t{1} << 50}, DType::kU8, Category::kActivations);
    FAIL() << "no GPU has a pebibyte";
  } catch (const OutOfMemory& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 4"));
  }
  EXPECT_EQ(unbounded.ValuesOf(unbounded.Of({1, 2})), (std::vector<float>{1, 2}));  // the failure is over
}

TEST_F(CudaDeviceTest, MemoryComesFromTheGpuAndGoesBack) {
  size_t free = 0, during = 0, after = 0, total = 0;
  RankLab first;  // the context exists
  cuda::Check(cudaMemGetInfo(&free, &total));
  {
    RankLab lab;
    const Tensor t = lab.device.NewTensor({64 << 20}, DType::kU8, Category::kOther);
    cuda::Check(cudaMemGetInfo(&during, &total));
    EXPECT_EQ(lab.allocator.ledger().stats().reserved.value(), 64 << 20);
  }
  cuda::Check(cudaMemGetInfo(&after, &total));
  EXPECT_GE(free - during, size_t{64} << 20);
  EXPECT_GE(after, during + (size_t{64} << 20));
}

#ifdef TWOFOLD_EMULATED_CUDA
// What a launch costs the host beside the launch.
TEST_F(CudaDeviceTest, ALaunchCallsNothingElseAndAWaitTimesTheComputeStreamAlone) {
  using emulated::Call;
  RankLab lab;
  const auto side = lab.device.NewStream("side"), third = lab.device.NewStream("third");
  const Tensor a = lab.Of(Numbers(8)), b = lab.Of(Numbers(8));
  const auto made = [](Call call, const std::function<void()>& by) {
    const int64_t before = emulated::Calls(call);
    by();
    return emulated::Calls(call) - before;
  };
  constexpr int kLaunches = 10;
  const auto launch = [&] {
    for (int i = 0; i < kLaunches; ++i) lab.device.Launch(lab.device.compute(), ops::AddTo{.in = a, .out = b});
  };
  EXPECT_EQ(made(Call::kLaunch, launch), kLaunches);
  EXPECT_EQ(made(Call::kSetDevice, launch), 0);
  EXPECT_EQ(made(Call::kRecordTimed, launch) + made(Call::kRecordUntimed, launch), 0);
  Gate gate(*side);
  const auto wait = [&](Stream& stream) { return [&] { stream.WaitFor(side->Record()); }; };
  EXPECT_EQ(made(Call::kRecordTimed, wait(*third)), 0);
  EXPECT_EQ(made(Call::kRecordUntimed, wait(*third)), 1);
  EXPECT_EQ(made(Call::kRecordTimed, wait(lab.device.compute())), 2) << "exposed communication is measured";
  EXPECT_EQ(made(Call::kSetDevice, wait(*third)), 0);
  gate.Open();
}
#endif

}  // namespace cuda_device_test
}  // namespace twofold
