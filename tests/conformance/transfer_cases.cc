// Transfers between a device's memory and its host's: what arrives, in which order, and who pays for the memory.
#include <utility>

#include "core/device/transfers.h"
#include "tests/conformance/cases.h"

namespace twofold::conformance {
namespace {

#ifdef TWOFOLD_SANITIZED
constexpr int64_t kCount = 100'003;  // an emulated kernel takes the thread sanitizer microseconds an element
#else
constexpr int64_t kCount = 1'000'003;
#endif

// Every type and size there and back, through handles that the program lets go of at once.
void ThereAndBack(Rig& rig) {
  Device& device = rig.device();
  TransferStream out(device, "device to host"), in(device, "host to device");
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI32, DType::kU8}) {
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{10}, kCount}) {
      const Series series{.rank = rig.rank(), .salt = 7 + static_cast<uint32_t>(count)};
      const Tensor host = device.NewHostTensor(Shape{count}, dtype, Category::kOther);
      const Transfer there = out.Copy(rig.Put(dtype, count, series), host);
      rig.Blank(dtype, count);  // would lie where the first did, had its memory been given back
      Tensor back = rig.Blank(dtype, count);
      in.After(there);
      in.Copy(host, back).WaitOn(device.compute());
      rig.ExpectSeries(back, series, 0, StrCat("there and back of ", count, " elements"));
    }
  }
}

// A transfer sees what was computed before it, and computing sees what a transfer has brought.
void OrderedWithComputing(Rig& rig) {
  Device& device = rig.device();
  TransferStream out(device, "device to host"), in(device, "host to device");
  Tensor host = device.NewHostTensor(Shape{kCount}, DType::kF32, Category::kOther);
  Tensor t = rig.Blank(DType::kF32, kCount), sum = rig.Blank(DType::kF32, 1);
  for (int round = 1; round <= 3; ++round) {
    device.Launch(device.compute(), ops::Fill{.out = t, .value = static_cast<double>(round)});
    Transfer away = out.Copy(t, host);
    away.WaitOn(device.compute());
    device.Launch(device.compute(), ops::Fill{.out = t, .value = -1});
    in.After(away);
    in.Copy(host, t).WaitOn(device.compute());
    device.Launch(device.compute(), ops::Sum{.in = t, .out = sum, .factor = 1.0 / static_cast<double>(kCount)});
    const double mean = device.Item(sum, {static_cast<double>(round), "mean"});
    rig.Expect(mean == round, StrCat("round ", round, " has brought ", mean));
  }
}

// Two streams that hand pieces on to one another, several pieces at once, end with each piece in its place.
void PiecesThroughTwoBuffers(Rig& rig) {
  Device& device = rig.device();
  TransferStream out(device, "device to host"), in(device, "host to device");
  constexpr int64_t kPiece = 100'003, kPieces = 9;
  const Series series{.rank = rig.rank(), .salt = 3};
  Tensor from = device.NewHostTensor(Shape{kPieces * kPiece}, DType::kF32, Category::kOther);
  Tensor to = device.NewHostTensor(Shape{kPieces * kPiece}, DType::kF32, Category::kOther);
  out.Copy(rig.Put(DType::kF32, kPieces * kPiece, series), from).Wait();
  Tensor buffers[2] = {rig.Blank(DType::kF32, kPiece), rig.Blank(DType::kF32, kPiece)};
  Transfer written[2];
  for (int64_t p = 0; p < kPieces; ++p) {
    const auto b = static_cast<size_t>(p % 2);
    in.After(written[b]);
    Transfer read = in.Copy(from.Slice(p * kPiece, kPiece), buffers[b]);
    out.After(read);
    written[b] = out.Copy(buffers[b], to.Slice(p * kPiece, kPiece));
  }
  Tensor back = rig.Blank(DType::kF32, kPieces * kPiece);
  in.After(written[(kPieces - 1) % 2]);
  in.Copy(to, back).WaitOn(device.compute());
  rig.ExpectSeries(back, series, 0, "pieces");
}

// The host's memory has a ledger of its own; what a transfer touches is kept until the program waits, on every fabric
// alike.
void AccountedApart(Rig& rig) {
  Device& device = rig.device();
  const auto live = [&] {
    return std::pair(device.allocator().ledger().stats().live, rig.context().host_memory().live);
  };
  const auto before = live();
  {
    TransferStream out(device, "device to host");
    Tensor t = rig.Blank(DType::kU8, 4096),
           host = device.NewHostTensor(Shape{4096}, DType::kU8, Category::kOptimizerState);
    const auto both = live();
    rig.Expect(both.first - before.first == Bytes(4096) && both.second - before.second == Bytes(4096),
               "both ledgers count 4096 bytes");
    Transfer away = out.Copy(t, host);
    t = host = Tensor();
    rig.Expect(live() == both, "what a transfer touches is kept");
    away.WaitOn(device.compute());
    rig.Expect(live() == before, "what a transfer has touched is let go when the program has waited");
  }
}

}  // namespace

std::vector<Case> TransferCases() {
  const std::vector<int> worlds = {1, 2};
  return {{"TransfersThereAndBack", worlds, ThereAndBack},
          {"TransfersAreOrderedWithComputing", worlds, OrderedWithComputing},
          {"TransfersOfPiecesThroughTwoBuffers", worlds, PiecesThroughTwoBuffers},
          {"TransfersAreAccountedApart", worlds, AccountedApart}};
}

}  // namespace twofold::conformance
