#include "kernels/cuda/emulated/async_units.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cuda/emulated/shared_matrix.h"
#include "kernels/cuda/emulated/thread_sanitizer.h"

namespace twofold::emulated {
namespace {

// The window: dynamic shared memory begins in its second KiB, as on a GPU, but at no multiple of 1024 bytes. Static
// shared memory, which is thread-local memory of the host's thread, is at its end.
constexpr uint32_t kWindow = 256 << 10, kStaticRoom = 13 << 10, kMiddleOfStatic = kWindow - kStaticRoom;
static_assert(kMiddleOfStatic % 1024 == 0);

constexpr int kMostCounted = (1 << 20) - 1;  // arrivals, and bytes ("mbarrier", "Contents of the mbarrier object")
constexpr std::byte kUnderWay{0xff};

uintptr_t StaticAnchor() { return reinterpret_cast<uintptr_t>(&threadIdx) / 1024 * 1024; }

}  // namespace

void AsyncUnits::Begin() {
  base_ = 1024 + 128 * (1 + static_cast<uint32_t>((of_.Random() >> 33) % 7));
  view_.assign(of_.shared_bytes(), std::byte{0xff});  // as the memory itself
  barriers_.clear();
  copies_.clear();
  for (Named& named : named_) named = {};
  groups_.Begin();
  early_ = of_.Random() >> 63 != 0;
}

std::string AsyncUnits::LeftOver() {
  if (!copies_.empty()) return absl::StrFormat("it ended while %d copies to its memory were in flight", copies_.size());
  return groups_.LeftOver();
}

std::string AsyncUnits::Describe(const Waiting& w) const {
  switch (w.what) {
    case Waiting::For::kPhase: {
      const Barrier& b = barriers_.at(w.which);
      return absl::StrFormat(
          "the phase of parity %d of the barrier at %#x, which is in phase %d and lacks %d of %d "
          "arrivals and %d bytes",
          w.wanted, w.which, b.phases, b.pending, b.arrivals, b.bytes);
    }
    case Waiting::For::kNamedBarrier:
      return absl::StrFormat("%d threads at named barrier %d, of which %d have come", w.wanted, w.which,
                             named_[w.which].arrived);
    case Waiting::For::kProducts:
      return absl::StrFormat("product %d of warp group %d, which not all of its warps have called", w.wanted, w.which);
    case Waiting::For::kRegisters:
      return absl::StrFormat("%d registers per thread, while the block has %d left", w.wanted, groups_.registers());
  }
  return "";
}

// ---- Shared memory ----

uint32_t AsyncUnits::Window(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address), dynamic = reinterpret_cast<uintptr_t>(of_.shared());
  if (dynamic != 0 && at >= dynamic && at <= dynamic + of_.shared_bytes())
    return base_ + static_cast<uint32_t>(at - dynamic);
  const auto from_anchor = static_cast<int64_t>(at) - static_cast<int64_t>(StaticAnchor());
  if (from_anchor < -int64_t{kStaticRoom} || from_anchor >= int64_t{kStaticRoom})
    of_.Fail(absl::StrFormat("thread %d: SharedWindow of an address that is not in shared memory", of_.thread()));
  return static_cast<uint32_t>(kMiddleOfStatic + from_anchor);
}

size_t AsyncUnits::Offset(uint32_t address, uint32_t bytes, const char* what) const {
  if (address < base_ || address - base_ > of_.shared_bytes() || bytes > of_.shared_bytes() - (address - base_)) {
    of_.Fail(
        absl::StrFormat("thread %d: %s: shared address %#x is outside the %d bytes of dynamic shared memory at "
                        "%#x",
                        of_.thread(), what, address, of_.shared_bytes(), base_));
  }
  return address - base_;
}

std::byte* AsyncUnits::Host(uint32_t address, uint32_t bytes, const char* what) {
  if (address >= kMiddleOfStatic - kStaticRoom && address < kWindow)
    return reinterpret_cast<std::byte*>(StaticAnchor() + address - kMiddleOfStatic);  // wraps below the anchor
  return static_cast<std::byte*>(of_.shared()) + Offset(address, bytes, what);
}

const std::byte* AsyncUnits::Chunk(uint32_t address, const char* what) {
  const size_t at = Offset(address, kChunkBytes, what);
  const std::byte* here = static_cast<const std::byte*>(of_.shared()) + at;
  for (const InFlight& copy : copies_) {
    if (address + kChunkBytes > copy.to && address < copy.to + copy.bytes) {
      of_.Fail(absl::StrFormat("thread %d: %s at shared address %#x, to which a copy is in flight", of_.thread(), what,
                               address));
    }
  }
  if (std::memcmp(here, &view_[at], kChunkBytes) != 0) {
    of_.Fail(
        absl::StrFormat("thread %d: %s at shared address %#x, to which threads have stored without a "
                        "fence.proxy.async since",
                        of_.thread(), what, address));
  }
  return here;
}

void AsyncUnits::FenceProxy() {
  if (!view_.empty()) std::memcpy(view_.data(), of_.shared(), view_.size());
}

// ---- Barriers in shared memory ----

AsyncUnits::Mark AsyncUnits::Init(uint32_t address, int arrivals) {
  if (address % 8 != 0)
    of_.Fail(absl::StrFormat("thread %d: a barrier at shared address %#x, which is not aligned to 8 bytes",
                             of_.thread(), address));
  auto* at = reinterpret_cast<uint64_t*>(Host(address, 8, "InitBarrier"));
  if (arrivals < 1 || arrivals > kMostCounted)
    of_.Fail(absl::StrFormat("thread %d: a barrier of %d arrivals; 1 to %d are possible", of_.thread(), arrivals,
                             kMostCounted));
  if (barriers_.contains(address))
    of_.Fail(
        absl::StrFormat("thread %d: the barrier at shared address %#x is initialised again", of_.thread(), address));
  const Barrier barrier = {.mark = of_.Random(), .arrivals = arrivals, .pending = arrivals, .by = of_.thread()};
  barriers_.emplace(address, barrier);
  return {at, barrier.mark};
}

void AsyncUnits::FenceInit() {
  for (auto& [address, barrier] : barriers_) barrier.fenced |= barrier.by == of_.thread();
  FenceProxy();
}

const uint64_t* AsyncUnits::At(uint32_t address) {
  Of(address);
  return reinterpret_cast<const uint64_t*>(Host(address, 8, "a barrier"));
}

AsyncUnits::Barrier& AsyncUnits::Of(uint32_t address) {
  const auto found = barriers_.find(address);
  if (found == barriers_.end())
    of_.Fail(absl::StrFormat("thread %d: there is no barrier at shared address %#x", of_.thread(), address));
  uint64_t there;
  std::memcpy(&there, Host(address, 8, "a barrier"), 8);
  if (there != found->second.mark)
    of_.Fail(absl::StrFormat("thread %d: the barrier at shared address %#x was overwritten", of_.thread(), address));
  return found->second;
}

// "Phase Completion of the mbarrier object"
void AsyncUnits::Count(uint32_t address, Barrier& b, int arrivals, int bytes) {
  if (arrivals > b.pending) {
    of_.Fail(absl::StrFormat("thread %d: an arrival too many at the barrier at %#x: phase %d has had its %d",
                             of_.thread(), address, b.phases, b.arrivals));
  }
  b.pending -= arrivals;
  b.bytes += bytes;
  if (std::abs(b.bytes) > kMostCounted) {
    of_.Fail(absl::StrFormat("thread %d: the barrier at %#x counts %d bytes; at most %d are possible", of_.thread(),
                             address, b.bytes, kMostCounted));
  }
  if (b.pending != 0 || b.bytes != 0) return;
  b.pending = b.arrivals;
  ++b.phases;
  of_.Wake(&b);
}

void AsyncUnits::Arrive(uint32_t address, int bytes) {
  Barrier& b = Of(address);
  if (bytes < 0 || bytes > kMostCounted)
    of_.Fail(
        absl::StrFormat("thread %d: %d bytes are announced; 0 to %d are possible", of_.thread(), bytes, kMostCounted));
  ComesBefore(&b);
  if (b.pending > 0) Count(address, b, 0, bytes);  // before the arrival, which may end the phase
  Count(address, b, 1, 0);
}

void AsyncUnits::WaitForPhase(uint32_t address, int parity) {
  Barrier& b = Of(address);
  if (parity != 0 && parity != 1)
    of_.Fail(absl::StrFormat("thread %d: a phase of parity %d; 0 and 1 are possible", of_.thread(), parity));
  while (static_cast<int>(b.phases % 2) == parity)
    of_.WaitFor(&b, {.what = Waiting::For::kPhase, .which = address, .wanted = parity});
  ComesAfter(&b);
}

// ---- Copies ----

void AsyncUnits::Start(uint32_t to, const Tiles& map, const int (&at)[3], uint32_t barrier) {
  const uint32_t bytes = map.box[0] * map.box[1] * map.box[2] * map.element;
  if (bytes == 0) of_.Fail(absl::StrFormat("thread %d: a copy with a tensor map that was not encoded", of_.thread()));
  if (to % 1024 != 0) {
    of_.Fail(absl::StrFormat("thread %d: a tile goes to shared address %#x, which is not a multiple of 1024",
                             of_.thread(), to));
  }
  const size_t offset = Offset(to, bytes, "a copy of a tile");
  if (!Of(barrier).fenced) {
    of_.Fail(
        absl::StrFormat("thread %d: a copy counts on the barrier at %#x, after whose InitBarrier no "
                        "FenceBarrierInit came",
                        of_.thread(), barrier));
  }
  for (uint32_t chunk = 0; chunk < bytes; chunk += kChunkBytes) Chunk(to + chunk, "a copy of a tile goes to memory");
  if (const char* reader = groups_.Reads(to, bytes); reader != nullptr) {
    of_.Fail(absl::StrFormat("thread %d: a copy goes to shared address %#x, where %s of a product in flight is",
                             of_.thread(), to, reader));
  }
  std::memset(static_cast<std::byte*>(of_.shared()) + offset, static_cast<int>(kUnderWay), bytes);
  std::memset(&view_[offset], static_cast<int>(kUnderWay), bytes);
  copies_.push_back({.to = to, .bytes = bytes, .map = map, .at = {at[0], at[1], at[2]}, .barrier = barrier});
  MaybeCopy();
}

bool AsyncUnits::Copy() {
  if (copies_.empty()) return false;
  const size_t which = (of_.Random() >> 33) % copies_.size();
  const InFlight copy = copies_[which];
  copies_.erase(copies_.begin() + static_cast<ptrdiff_t>(which));
  const Tiles& map = copy.map;
  const size_t offset = Offset(copy.to, copy.bytes, "a copy of a tile");
  std::byte* const to = static_cast<std::byte*>(of_.shared()) + offset;
  if (!std::all_of(to, to + copy.bytes, [](std::byte b) { return b == kUnderWay; })) {
    of_.Fail(absl::StrFormat("threads stored to shared memory at %#x ... %#x while a copy to it was in flight", copy.to,
                             copy.to + copy.bytes - 1));
  }
  const auto inside = [&](int dimension, int64_t index) {
    return index >= 0 && static_cast<uint64_t>(index) < map.sizes[dimension];
  };
  uint32_t at = 0;  // bytes, of the tile without swizzle
  for (uint32_t i2 = 0; i2 < map.box[2]; ++i2) {
    for (uint32_t i1 = 0; i1 < map.box[1]; ++i1) {
      const int64_t c2 = int64_t{copy.at[2]} + i2, c1 = int64_t{copy.at[1]} + i1;
      const bool there = inside(1, c1) && inside(2, c2);
      const auto* row = static_cast<const std::byte*>(map.data);
      if (there) row += static_cast<uint64_t>(c1) * map.strides[0] + static_cast<uint64_t>(c2) * map.strides[1];
      for (uint32_t i0 = 0; i0 < map.box[0]; ++i0, at += map.element) {
        const int64_t c0 = int64_t{copy.at[0]} + i0;
        const uint32_t swizzled =
            Swizzled((copy.to + at) / kChunkBytes * kChunkBytes, 8, 0) + at % kChunkBytes - copy.to;
        if (there && inside(0, c0))
          std::memcpy(to + swizzled, row + static_cast<uint64_t>(c0) * map.element, map.element);
        else
          std::memset(to + swizzled, 0, map.element);
      }
    }
  }
  std::memcpy(&view_[offset], to, copy.bytes);
  Count(copy.barrier, Of(copy.barrier), 0, -static_cast<int>(copy.bytes));
  return true;
}

// ---- Named barriers ----

unsigned AsyncUnits::ArriveAt(int id, int threads) {
  const int warp = of_.thread() / warpSize;
  if (id < 1 || id >= static_cast<int>(std::size(named_)))
    of_.Fail(absl::StrFormat("thread %d: there is no named barrier %d, but 1 to 15", of_.thread(), id));
  if (threads < warpSize || threads % warpSize != 0 || threads > of_.threads()) {
    of_.Fail(
        absl::StrFormat("thread %d: named barrier %d for %d threads; a multiple of 32 up to the block's %d are "
                        "possible",
                        of_.thread(), id, threads, of_.threads()));
  }
  Named& named = named_[id];
  if (named.arrived != 0 && named.threads != threads) {
    of_.Fail(absl::StrFormat("thread %d comes to named barrier %d for %d threads, and others came for %d", of_.thread(),
                             id, threads, named.threads));
  }
  if ((named.warps >> warp & 1) != 0) {
    of_.Fail(absl::StrFormat("warp %d comes to named barrier %d again before the others have come (%d of %d threads)",
                             warp, id, named.arrived, threads));
  }
  const unsigned turn = named.turn;
  named.threads = threads;
  named.arrived += warpSize;
  named.warps |= 1u << warp;
  if (named.arrived == threads) {
    named.arrived = 0;
    named.warps = 0;
    ++named.turn;
    of_.Wake(&named);
  }
  return turn;
}

void AsyncUnits::WaitAt(int id, unsigned turn) {
  Named& named = named_[id];
  while (named.turn == turn) {
    of_.WaitFor(&named,
                {.what = Waiting::For::kNamedBarrier, .which = static_cast<uint32_t>(id), .wanted = named.threads});
  }
}

}  // namespace twofold::emulated
