// What the emulation says of kernels that use Hopper's instructions wrongly. (tests/gpu/hopper_instructions_test.cu has
// right ones.) Each kernel is right with kNothing, and wrong in one respect with another mistake.
#include "kernels/cuda/hopper.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/launch.h"
#include "tests/unit/emulated_cuda/on_gpu.h"

namespace twofold::cuda::hopper_test {
namespace {

using ::twofold::emulated_test::EmulatedCuda;
using ::twofold::emulated_test::OnGpu;

enum Mistake {
  kNothing,
  // of products
  kNoFence,
  kNoProxyFence,
  kStoreWhileInFlight,
  kWriteSums,
  kReadSums,
  kChangeSums,
  kChangeA,
  kChangeAInFlight,
  kUnevenDescriptors,
  kUnevenWarps,
  kOtherShape,
  kOutside,
  kNoWait,
  kOneWarpAway,
  kNoCommit,
  // of barriers and copies
  kParity,
  kTooManyArrivals,
  kTooFewBytes,
  kNoInit,
  kInitAgain,
  kInitNothing,
  kOverwritten,
  kUnaligned,
  kNotFencedInit,
  kTileUnaligned,
  kTileOverTile,
  kTileOverOperand,
  kTileOverStores,
  kStoreIntoTile,
  kReadTooEarly,
  kNotWaitedFor,
  kNotEncoded,
  kNotShared,
  kTooManyBytes,
  // of named barriers and registers
  kOtherCount,
  kOddCount,
  kNoSuchBarrier,
  kTwice,
  kMissing,
  kTooManyRegisters,
  kLessByRaising,
  kOneWarpAlone,
  kWarpsDisagree,
};

class HopperMisuse : public EmulatedCuda {
 protected:
  // Launches, and returns what is said on stderr; "" if the kernel was right. Some mistakes show in some orders only,
  // or in another way: launches up to `times` times, until `what` is in the report.
  template <class F>
  std::string Report(F launch, int times = 1, const std::string& what = "") {
    std::string report;
    for (int i = 0; i < times && (i == 0 || report.find(what) == std::string::npos); ++i) {
      testing::internal::CaptureStderr();
      launch();
      const cudaError_t error = cudaStreamSynchronize(stream_);
      report = testing::internal::GetCapturedStderr();
      EXPECT_EQ(error, report.empty() ? cudaSuccess : cudaErrorLaunchFailure) << report;
      emulated::Recover();
    }
    return report;
  }
  static void ExpectIn(const std::string& report, const std::string& what) {
    EXPECT_NE(report.find(what), std::string::npos) << '"' << report << "\" lacks \"" << what << '"';
  }
};

unsigned char* Aligned() {
  auto* shared = DynamicShared<unsigned char>();
  return shared + (1024 - SharedWindow(shared) % 1024) % 1024;
}

// ---- Products: two of ones, [64, 16] * [16, 128], so that d is 32 everywhere ----

constexpr int kOperands = 8 * 1024 + 16 * 1024;
constexpr uint16_t kOne = 0x3f80;  // bf16

__global__ void Products(Mistake mistake, float* out) {
  unsigned char* const shared = Aligned();
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  for (int i = thread; i < kOperands / 2; i += kWarpGroup) reinterpret_cast<uint16_t*>(shared)[i] = kOne;
  if (mistake != kNoProxyFence) FenceBarrierInit();
  __syncthreads();
  const uint32_t at = SharedWindow(shared);
  uint64_t a = SwizzledMatrix(at, 16, 1024);
  const uint64_t b = SwizzledMatrix(at + (mistake == kOutside ? 0x10000 : 8192), 16, 1024);
  if (mistake == kUnevenDescriptors && thread % 32 == 5) a += 2;
  if (mistake == kUnevenWarps && warp == 2) a += 2;
  float d[16][4] = {}, other[8][4] = {};
  uint32_t of_a[4] = {kOne, kOne, kOne, kOne};
  Keep(d);
  if (mistake != kNoFence) FenceProducts();
  if (mistake != kOneWarpAway || warp != 3) MultiplyShared<Bf16, 128>(d, a, b, true);
  CommitProducts();
  if (mistake == kChangeSums) WaitForProducts<0>(), d[3][2] = 5;
  if (mistake == kWriteSums) d[3][2] = 5;
  if (mistake == kStoreWhileInFlight && thread == 7) reinterpret_cast<uint16_t*>(shared)[8] = 0;
  if (mistake == kOtherShape) {
    float(*eight)[4] = d;
    MultiplyRegisters<Bf16, 64>(*reinterpret_cast<float(*)[8][4]>(eight), of_a, b, true);
  }
  MultiplyShared<Bf16, 128>(d, a, b, true);
  CommitProducts();
  if (mistake == kChangeA || mistake == kChangeAInFlight) {
    MultiplyRegisters<Bf16, 64>(other, of_a, b, false);
    CommitProducts();
    of_a[1] = 7;
    if (mistake == kChangeA) MultiplyRegisters<Bf16, 64>(other, of_a, b, false);
  }
  if (mistake == kNoCommit) MultiplyShared<Bf16, 128>(d, a, b, true);
  if (mistake == kReadSums) out[thread] = d[5][1];
  if (mistake == kNoWait) return;
  WaitForProducts<0>();
  Keep(d);
  if (mistake == kReadSums) return;
  out[thread] = d[5][1];
}

TEST_F(HopperMisuse, Products) {
  OnGpu<float> out(128, 0.0f);
  const auto report = [&](Mistake mistake) {
    return Report([&] { Launch(Products, 1, kWarpGroup, kOperands + 1024, stream_, mistake, out.get()); });
  };
  EXPECT_EQ(report(kNothing), "");
  EXPECT_EQ(out.Download(stream_), std::vector<float>(128, 32));
  ExpectIn(report(kNoFence), "a product before the first FenceProducts");
  ExpectIn(report(kNoProxyFence), "to which threads have stored without a fence.proxy.async since");
  // what the other proxy sees, or what the product has read before, differs
  ExpectIn(report(kStoreWhileInFlight), "threads have stored without a fence.proxy.async");
  ExpectIn(report(kWriteSums), "d was written while a product with it was in flight");
  ExpectIn(report(kChangeSums), "d has changed since its last product, and no FenceProducts came in between");
  ExpectIn(report(kChangeA), "a's registers have changed since their last product, and no FenceProducts came");
  ExpectIn(report(kChangeAInFlight), "a's registers have changed while a product with them was in flight");
  ExpectIn(report(kUnevenDescriptors), "its lanes give a product different descriptors");
  ExpectIn(report(kUnevenWarps), "the warps of its group give a product different descriptors");
  ExpectIn(report(kOtherShape), "a product has d, but not the shape, of a product in flight");
  ExpectIn(report(kOutside), "outside the 25600 bytes of dynamic shared memory");
  ExpectIn(report(kNoWait), "ended while its products were in flight");
  ExpectIn(report(kNoCommit), "ended while its products were in flight");
  ExpectIn(report(kOneWarpAway), "96 wait for product 1 of warp group 0, which not all of its warps have called");
  EXPECT_EQ(report(kReadSums), "");
  for (const float x : out.Download(stream_)) EXPECT_NE(x, x) << "a NaN, before the wait";
}

__global__ void ProductOfAWarp() { FenceProducts(); }
TEST_F(HopperMisuse, LessThanAWarpGroup) {
  ExpectIn(Report([&] { Launch(ProductOfAWarp, 1, 96, 0, stream_); }), "FenceProducts in a warp group of less than");
}

// A wait leaves the newest groups in flight: their sums are not there yet.
__global__ void TwoGroups(float* out) {
  unsigned char* const shared = Aligned();
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kOperands / 2; i += kWarpGroup) reinterpret_cast<uint16_t*>(shared)[i] = kOne;
  FenceBarrierInit();
  __syncthreads();
  const uint64_t b = SwizzledMatrix(SharedWindow(shared), 8192, 1024);
  float first[8][4] = {}, second[8][4] = {};
  const uint32_t of_a[4] = {kOne, 0, 0, 0};
  FenceProducts();
  MultiplyRegisters<Bf16, 64>(first, of_a, b, false);
  CommitProducts();
  MultiplyRegisters<Bf16, 64>(second, of_a, b, false);
  CommitProducts();
  WaitForProducts<1>();
  Keep(first);
  out[thread] = first[7][1], out[128 + thread] = second[7][1];
  WaitForProducts<0>();
  Keep(second);
  out[256 + thread] = second[7][1];
}
TEST_F(HopperMisuse, GroupsAreWaitedForInOrder) {
  OnGpu<float> out(384, 0.0f);
  EXPECT_EQ(Report([&] { Launch(TwoGroups, 1, kWarpGroup, kOperands + 1024, stream_, out.get()); }), "");
  const std::vector<float> got = out.Download(stream_);
  for (size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(got[i], 4);
    EXPECT_NE(got[128 + i], got[128 + i]);
    EXPECT_EQ(got[256 + i], 4);
  }
}

// ---- Barriers and copies: a warp group copies a tile of eight rows twice, and reads what it got ----

struct Tensors {
  TensorMap map, none;
};

__global__ void Copies(Mistake mistake, const __grid_constant__ Tensors tensors, uint16_t* out) {
  unsigned char* const shared = Aligned();
  const int thread = static_cast<int>(threadIdx.x);
  const uint32_t at = SharedWindow(shared), tile = at + 1024 + (mistake == kTileUnaligned ? 512 : 0);
  uint32_t barrier = at + (mistake == kUnaligned ? 4 : 0);
  auto* const elements = reinterpret_cast<uint16_t*>(shared + 1024);
  if (mistake == kNotShared) SharedWindow(out);
  if (thread == 0) {
    if (mistake != kNoInit) InitBarrier(barrier, mistake == kInitNothing ? 0 : 1);
    if (mistake == kInitAgain) InitBarrier(barrier, 1);
    if (mistake != kNotFencedInit) FenceBarrierInit();
  }
  __syncthreads();
  if (mistake == kOverwritten && thread == 1) *reinterpret_cast<uint64_t*>(shared) = 0;
  __syncthreads();
  for (int time = 0; time < 2; ++time) {
    if (thread == 0) {
      CopyTile(tile, mistake == kNotEncoded ? tensors.none : tensors.map, 0, 0, time, barrier);
      if (mistake == kTileOverTile) CopyTile(tile, tensors.map, 0, 0, time, barrier);
      if (mistake == kStoreIntoTile) elements[5] = 3;
      if (mistake == kTooManyBytes) ArriveAndExpect(barrier, 1 << 20);
      ArriveAndExpect(barrier, mistake == kTooFewBytes ? 512 : 1024);
      if (mistake == kTooManyArrivals) Arrive(barrier), Arrive(barrier);
    }
    if (mistake == kNotWaitedFor && time == 1) return;
    if (mistake != kReadTooEarly) WaitForPhase(barrier, mistake == kParity ? 1 - time : time);
    out[thread] = elements[thread];
    if (mistake == kReadTooEarly) WaitForPhase(barrier, time);
    __syncthreads();
  }
}

TEST_F(HopperMisuse, BarriersAndCopies) {
  std::vector<uint16_t> elements(2 * 8 * 64);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<uint16_t>(i);
  OnGpu<uint16_t> tensor(elements, stream_), out(128, 0);
  Tensors tensors;
  tensors.map = Encode({.data = tensor.get(), .sizes = {64, 8, 2}, .strides = {128, 1024}, .box = {64, 8, 1}});
  const auto report = [&](Mistake mistake, int times = 1, const std::string& what = "") {
    return Report([&] { Launch(Copies, 1, 128, 4096, stream_, mistake, tensors, out.get()); }, times, what);
  };
  const auto expect_sometimes = [&](Mistake mistake, const std::string& what) {
    ExpectIn(report(mistake, 30, what), what);
  };
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(report(kNothing), "");
    const std::vector<uint16_t> got = out.Download(stream_);
    for (size_t j = 0; j < 128; ++j) {
      const size_t row = j / 64, chunk = j % 64 / 8;
      EXPECT_EQ(got[j], 512 + row * 64 + (chunk ^ row) * 8 + j % 8);
    }
  }
  ExpectIn(report(kTooFewBytes), "128 wait for the phase of parity 0 of the barrier at 0x");
  ExpectIn(report(kTooFewBytes), "lacks 0 of 1 arrivals and -512 bytes");
  expect_sometimes(kTooManyArrivals, "an arrival too many at the barrier");
  ExpectIn(report(kTooManyBytes), "1048576 bytes are announced; 0 to 1048575 are possible");
  ExpectIn(report(kNoInit), "there is no barrier at shared address 0x");
  ExpectIn(report(kInitAgain), "is initialised again");
  ExpectIn(report(kInitNothing), "a barrier of 0 arrivals; 1 to 1048575 are possible");
  ExpectIn(report(kOverwritten), "was overwritten");
  ExpectIn(report(kUnaligned), "which is not aligned to 8 bytes");
  ExpectIn(report(kNotFencedInit), "after whose InitBarrier no FenceBarrierInit came");
  ExpectIn(report(kTileUnaligned), "which is not a multiple of 1024");
  expect_sometimes(kTileOverTile, "to which a copy is in flight");
  expect_sometimes(kStoreIntoTile, "while a copy to it was in flight");
  expect_sometimes(kNotWaitedFor, "ended while 1 copies to its memory were in flight");
  ExpectIn(report(kNotEncoded), "a copy with a tensor map that was not encoded");
  ExpectIn(report(kNotShared), "SharedWindow of an address that is not in shared memory");
  // Without the right wait the old contents, or 0xffff, are read, in some blocks at least.
  for (const Mistake mistake : {kReadTooEarly, kParity}) {
    int wrong = 0;
    for (int i = 0; i < 20; ++i) {
      if (!report(mistake).empty()) {
        ++wrong;
        continue;
      }
      const std::vector<uint16_t> got = out.Download(stream_);
      for (size_t j = 0; j < 64; ++j) wrong += got[j] != 512 + j;
    }
    EXPECT_GE(wrong, 20) << mistake;
  }
}

// A copy follows stores of threads with or without a fence, and goes where an operand of a product is.
__global__ void CopyOver(Mistake mistake, const __grid_constant__ Tensors tensors) {
  unsigned char* const shared = Aligned();
  const int thread = static_cast<int>(threadIdx.x);
  const uint32_t barrier = SharedWindow(shared), tile = barrier + 1024;
  if (thread == 0) InitBarrier(barrier, 1), FenceBarrierInit();
  __syncthreads();
  for (int i = thread; i < 8192; i += kWarpGroup) reinterpret_cast<uint16_t*>(shared + 1024)[i] = kOne;
  if (mistake != kTileOverStores) FenceBarrierInit();
  __syncthreads();
  float d[8][4] = {};
  const uint32_t of_a[4] = {};
  FenceProducts();
  if (mistake != kTileOverStores) MultiplyRegisters<Bf16, 64>(d, of_a, SwizzledMatrix(tile, 8192, 1024), false);
  CommitProducts();
  if (mistake != kTileOverOperand) WaitForProducts<0>();
  __syncthreads();
  if (thread == 0) {
    CopyTile(tile + 1024, tensors.map, 0, 0, 0, barrier);
    ArriveAndExpect(barrier, 1024);
  }
  WaitForProducts<0>();
  if (mistake != kReadTooEarly) WaitForPhase(barrier, 0);
  __syncthreads();
  FenceProducts();
  MultiplyRegisters<Bf16, 64>(d, of_a, SwizzledMatrix(tile, 8192, 1024), false);
  CommitProducts();
  WaitForProducts<0>();
}
TEST_F(HopperMisuse, CopiesOverOtherThings) {
  OnGpu<uint16_t> tensor(std::vector<uint16_t>(8 * 64, 1), stream_);
  Tensors tensors;
  tensors.map = Encode({.data = tensor.get(), .sizes = {64, 8, 1}, .strides = {128, 1024}, .box = {64, 8, 1}});
  const auto report = [&](Mistake mistake) {
    return Report([&] { Launch(CopyOver, 1, kWarpGroup, 20480, stream_, mistake, tensors); });
  };
  EXPECT_EQ(report(kNothing), "");
  ExpectIn(report(kTileOverStores), "to which threads have stored without a fence.proxy.async since");
  ExpectIn(report(kTileOverOperand), "where operand b of a product in flight is");
  const std::string in_flight = "a product reads its operand b at shared address 0x";
  const std::string early =
      Report([&] { Launch(CopyOver, 1, kWarpGroup, 20480, stream_, kReadTooEarly, tensors); }, 30, in_flight);
  ExpectIn(early, in_flight);
  ExpectIn(early, "to which a copy is in flight");
}

// Barriers in static shared memory have addresses, too.
__global__ void StaticBarrier(int* out) {
  __shared__ uint64_t barriers[2];
  const uint32_t second = SharedWindow(barriers) + 8;
  if (threadIdx.x == 0) InitBarrier(second, 64), FenceBarrierInit();
  __syncthreads();
  Arrive(SharedWindow(&barriers[1]));
  WaitForPhase(second, 0);
  out[threadIdx.x] = static_cast<int>(second % 8);
}
TEST_F(HopperMisuse, BarriersInStaticMemory) {
  OnGpu<int> out(64, -1);
  EXPECT_EQ(Report([&] { Launch(StaticBarrier, 3, 64, 0, stream_, out.get()); }), "");
  EXPECT_EQ(out.Download(stream_), std::vector<int>(64, 0));
}

// The parity of phases: each thread sees what the others wrote in the phase before.
__global__ void Phases(int* out) {
  int* const shared = DynamicShared<int>() + 2;
  const uint32_t barrier = SharedWindow(DynamicShared<int>());
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (thread == 0) InitBarrier(barrier, threads), FenceBarrierInit();
  __syncthreads();
  int wrong = 0;
  for (int phase = 0; phase < 5; ++phase) {
    shared[phase % 2 * threads + thread] = phase * 1000 + thread;
    Arrive(barrier);
    WaitForPhase(barrier, phase % 2);
    const int next = (thread + 33) % threads;
    wrong += shared[phase % 2 * threads + next] != phase * 1000 + next;
  }
  out[thread] = wrong;
}
TEST_F(HopperMisuse, PhasesFollowEachOther) {
  OnGpu<int> out(96, -1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Report([&] { Launch(Phases, 1, 96, 1024, stream_, out.get()); }), "");
    EXPECT_EQ(out.Download(stream_), std::vector<int>(96, 0));
  }
}

// ---- Named barriers: 64 threads write, 64 read ----

__global__ void Named(Mistake mistake, int* out) {
  int* const shared = DynamicShared<int>();
  const int thread = static_cast<int>(threadIdx.x), id = mistake == kNoSuchBarrier ? 16 : 3;
  for (int time = 0; time < 3; ++time) {
    if (thread < 64) {
      if (time > 0) WaitAtBarrier(4, 128);
      shared[thread] = time * 100 + thread;
      if (mistake == kMissing && thread >= 32) return;
      if (mistake == kTwice && time == 0) ArriveAtBarrier(5, 128), ArriveAtBarrier(5, 128);
      ArriveAtBarrier(id, mistake == kOddCount ? 100 : 128);
    } else {
      WaitAtBarrier(id, mistake == kOtherCount ? 96 : mistake == kOddCount ? 100 : 128);
      out[time * 64 + thread - 64] = shared[thread - 64];
      if (time < 2) ArriveAtBarrier(4, 128);
    }
  }
}
TEST_F(HopperMisuse, NamedBarriers) {
  OnGpu<int> out(192, -1);
  const auto report = [&](Mistake mistake) {
    return Report([&] { Launch(Named, 1, 128, 1024, stream_, mistake, out.get()); });
  };
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(report(kNothing), "");
    const std::vector<int> got = out.Download(stream_);
    for (int j = 0; j < 192; ++j) EXPECT_EQ(got[static_cast<size_t>(j)], j / 64 * 100 + j % 64);
  }
  ExpectIn(report(kOtherCount), "and others came for");
  ExpectIn(report(kOddCount), "for 100 threads; a multiple of 32 up to the block's 128");
  ExpectIn(report(kNoSuchBarrier), "there is no named barrier 16, but 1 to 15");
  ExpectIn(report(kTwice), "comes to named barrier 5 again before the others have come (");
  ExpectIn(report(kMissing),
           "64 wait for 128 threads at named barrier 3, of which 96 have come (the first is thread 64)");
}

// ---- Registers ----

__global__ void Registers(Mistake mistake) {
  const int group = static_cast<int>(threadIdx.x) / kWarpGroup, warp = static_cast<int>(threadIdx.x) / 32;
  if (mistake == kOneWarpAlone && warp == 1) return;
  if (group == 0) {
    if (mistake == kLessByRaising)
      RaiseRegisters<24>();
    else if (mistake == kWarpsDisagree && warp == 1)
      LowerRegisters<40>();
    else
      LowerRegisters<24>();
  } else {
    if (mistake == kTooManyRegisters)
      RaiseRegisters<248>();
    else
      RaiseRegisters<240>();
  }
}
TEST_F(HopperMisuse, Registers) {
  const auto report = [&](Mistake mistake) {
    return Report([&] { Launch(Registers, 1, 3 * kWarpGroup, 0, stream_, mistake); });
  };
  for (int i = 0; i < 20; ++i) EXPECT_EQ(report(kNothing), "");  // 24 + 2 * 240 = 3 * 168
  // 24 + 2 * 248 is more than 3 * 168
  ExpectIn(report(kTooManyRegisters), "wait for 248 registers per thread, while the block has ");
  ExpectIn(report(kLessByRaising), "setmaxnreg.inc from 168 to 24 registers");
  ExpectIn(report(kOneWarpAlone), "wait for 240 registers per thread, while the block has ");
  ExpectIn(report(kWarpsDisagree), "the warps of its group ask for different numbers of registers");
}

__global__ void LowerAlone() {
  if (threadIdx.x < 32) LowerRegisters<24>();
}
__global__ void LowerTwice(bool together) {
  LowerRegisters<40>();
  if (together) WaitAtBarrier(1, kWarpGroup);
  LowerRegisters<24>();
}
__global__ void OddRegisters() { LowerRegisters<28>(); }
TEST_F(HopperMisuse, RegistersOfAWarpGroup) {
  ExpectIn(Report([&] { Launch(LowerAlone, 1, kWarpGroup, 0, stream_); }),
           "not all warps of warp group 0 have changed their registers alike");
  EXPECT_EQ(Report([&] { Launch(LowerTwice, 8, kWarpGroup, 0, stream_, true); }), "");
  const std::string second = "a second setmaxnreg before all warps of its group have done the first";
  ExpectIn(Report([&] { Launch(LowerTwice, 1, kWarpGroup, 0, stream_, false); }, 30, second), second);
  ExpectIn(Report([&] { Launch(OddRegisters, 1, kWarpGroup, 0, stream_); }),
           "setmaxnreg to 28 registers; a multiple of 8 from 24 to 256 is possible");
}

}  // namespace
}  // namespace twofold::cuda::hopper_test
