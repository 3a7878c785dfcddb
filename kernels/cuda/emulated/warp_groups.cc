#include "kernels/cuda/emulated/warp_groups.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cuda/emulated/async_units.h"
#include "kernels/cuda/emulated/shared_matrix.h"

namespace twofold::emulated {
namespace {

constexpr int kWarpsOfGroup = 4, kDepth = 16, kRowsOfWarp = 16, kChunkElements = 8;
constexpr int kRegistersOfBlock = 65536, kMostRegisters = 256;

const float kNotYet = std::bit_cast<float>(0x7fc0dead);  // a NaN, in d until the product was waited for

const Product& Of(void* const* lanes, int lane) { return *static_cast<const Product*>(lanes[lane]); }

bool SameBits(const float* a, const float* b, int count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0;
}
bool Untouched(const float* d, int count) {
  return std::all_of(d, d + count, [](float x) { return SameBits(&x, &kNotYet, 1); });
}
bool SameProduct(const Product& a, const Product& b) {
  return a.columns == b.columns && a.bf16 == b.bf16 && a.b_mn_major == b.b_mn_major && a.add == b.add && a.a == b.a &&
         a.b == b.b && (a.a_registers == nullptr) == (b.a_registers == nullptr);
}

float Number(uint16_t bits, bool bf16) {
  return bf16 ? std::bit_cast<float>(static_cast<uint32_t>(bits) << 16)
              : static_cast<float>(std::bit_cast<_Float16>(bits));
}
float Element(const std::vector<std::byte>& chunks, int chunk, int element, bool bf16) {
  uint16_t bits;
  std::memcpy(&bits, &chunks[static_cast<size_t>(chunk) * kChunkBytes + static_cast<size_t>(element) * 2], 2);
  return Number(bits, bf16);
}

}  // namespace

int WarpGroups::warp() const { return of_.thread() / kLanes; }
int WarpGroups::group() const { return warp() / kWarpsOfGroup; }

void WarpGroups::Wrong(std::string why) {
  std::string all = absl::StrFormat("warp %d: %s", warp(), why);
  std::string().swap(why);  // its destructor does not run
  of_.Fail(std::move(all));
}

void WarpGroups::Begin() {
  const int warps = (of_.threads() + kLanes - 1) / kLanes;
  warps_.assign(static_cast<size_t>(warps), {});
  groups_.assign(static_cast<size_t>(warps + kWarpsOfGroup - 1) / kWarpsOfGroup, {});
  const int each = std::min(kMostRegisters, kRegistersOfBlock / (warps * kLanes) / 8 * 8);
  for (Warp& warp : warps_) warp.registers = each;
  free_ = 0;
}

std::string WarpGroups::LeftOver() {
  for (size_t w = 0; w < warps_.size(); ++w) {
    if (!warps_[w].in_flight.empty()) return absl::StrFormat("warp %d ended while its products were in flight", w);
    if (warps_[w].changes != warps_[w / kWarpsOfGroup * kWarpsOfGroup].changes)
      return absl::StrFormat("not all warps of warp group %d have changed their registers alike", w / kWarpsOfGroup);
  }
  return "";
}

void WarpGroups::RequireGroup(const char* what) {
  if ((group() + 1) * kWarpsOfGroup * kLanes > of_.threads())
    Wrong(absl::StrFormat("%s in a warp group of less than 128 threads", what));
}

// ---- Operands ----

template <class F>
void WarpGroups::EachOfA(uint64_t a, int warp, F f) const {
  const SharedMatrix matrix = SharedMatrix::Of(a);
  for (int row = 0; row < kRowsOfWarp; ++row) {
    for (int chunk = 0; chunk < kDepth / kChunkElements; ++chunk)
      f(matrix.ChunkAlongK(warp % kWarpsOfGroup * kRowsOfWarp + row, chunk));
  }
}

template <class F>
void WarpGroups::EachOfB(const Product& p, F f) const {
  const SharedMatrix matrix = SharedMatrix::Of(p.b);
  if (p.b_mn_major) {
    for (int k = 0; k < kDepth; ++k) {
      for (int chunk = 0; chunk < p.columns / kChunkElements; ++chunk) f(matrix.ChunkAlongMn(chunk, k));
    }
  } else {
    for (int column = 0; column < p.columns; ++column) {
      for (int chunk = 0; chunk < kDepth / kChunkElements; ++chunk) f(matrix.ChunkAlongK(column, chunk));
    }
  }
}

void WarpGroups::Read(const Product& p, std::vector<std::byte>& a, std::vector<std::byte>& b) {
  a.clear(), b.clear();
  const auto add_to = [this](std::vector<std::byte>& to, const char* what) {
    return [this, &to, what](uint32_t address) {
      const std::byte* chunk = units_.Chunk(address, what);
      to.insert(to.end(), chunk, chunk + kChunkBytes);
    };
  };
  if (p.a_registers == nullptr) EachOfA(p.a, warp(), add_to(a, "a product reads its operand a"));
  EachOfB(p, add_to(b, "a product reads its operand b"));
}

const char* WarpGroups::Reads(uint32_t address, uint32_t bytes) const {
  const char* found = nullptr;
  for (size_t w = 0; w < warps_.size(); ++w) {
    for (const InFlight& f : warps_[w].in_flight) {
      const auto look = [&](const char* what) {
        return [&found, address, bytes, what](uint32_t chunk) {
          if (chunk + kChunkBytes > address && chunk < address + bytes) found = what;
        };
      };
      if (f.product.a_registers == nullptr) EachOfA(f.product.a, static_cast<int>(w), look("operand a"));
      EachOfB(f.product, look("operand b"));
      if (found != nullptr) return found;
    }
  }
  return nullptr;
}

// ---- Products ----

void WarpGroups::Fence() {
  RequireGroup("FenceProducts");
  ++Mine().fences;
}

void WarpGroups::Commit() {
  RequireGroup("CommitProducts");
  Mine().groups.push_back(Mine().issued);
}

// Notes what the newest product begins with in d, which from now on holds NaNs.
void WarpGroups::Take(Warp& warp, void* const* lanes) {
  InFlight& mine = warp.in_flight.back();
  const int each = mine.product.columns / 2;
  for (auto f = warp.in_flight.rbegin() + 1; f != warp.in_flight.rend(); ++f) {
    const Sums& d = *f->d;
    bool same = true;
    for (int lane = 0; lane < kLanes; ++lane) {
      const float* at = Of(lanes, lane).d;
      same &= at == d.at[lane] && each == d.each;
      if (at != d.at[lane] && at < d.at[lane] + d.each && d.at[lane] < at + each)
        Wrong("a product's d overlaps that of a product in flight");
      if (at == d.at[lane] && each != d.each) Wrong("a product has d, but not the shape, of a product in flight");
      if (at == d.at[lane] && !Untouched(at, each)) Wrong("d was written while a product with it was in flight");
    }
    if (!same) continue;
    mine.d = f->d;
    return;
  }
  mine.d = std::make_shared<Sums>();
  Sums& d = *mine.d;
  d.each = each;
  for (int lane = 0; lane < kLanes; ++lane) {
    d.at[lane] = Of(lanes, lane).d;
    d.values.insert(d.values.end(), d.at[lane], d.at[lane] + each);
  }
  const auto left = warp.left.find(d.at[0]);
  if (left != warp.left.end() && left->second.fences == warp.fences) {
    if (left->second.values.size() != d.values.size() ||
        !SameBits(left->second.values.data(), d.values.data(), kLanes * each))
      Wrong("d has changed since its last product, and no FenceProducts came in between");
  }
  for (float* at : d.at) std::fill(at, at + each, kNotYet);
}

// Notes the newest product's registers of a.
void WarpGroups::Give(Warp& warp, void* const* lanes) {
  InFlight& f = warp.in_flight.back();
  for (int lane = 0; lane < kLanes; ++lane) {
    f.a_at[lane] = Of(lanes, lane).a_registers;
    std::memcpy(f.a_values[lane], f.a_at[lane], sizeof(f.a_values[lane]));
  }
  Given& given = warp.given[f.a_at[0]];
  if (given.fences == warp.fences && std::memcmp(given.values, f.a_values, sizeof(given.values)) != 0)
    Wrong("a's registers have changed since their last product, and no FenceProducts came in between");
  std::memcpy(given.values, f.a_values, sizeof(given.values));
  given.fences = warp.fences;
}

void WarpGroups::Multiply(void* const* lanes) {
  RequireGroup("a product");
  Warp& warp = Mine();
  Group& group = groups_[static_cast<size_t>(this->group())];
  const Product& product = Of(lanes, 0);
  for (int lane = 1; lane < kLanes; ++lane) {
    if (!SameProduct(product, Of(lanes, lane))) Wrong("its lanes give a product different descriptors, or `add`");
  }
  if (product.columns < 8 || product.columns > 256 || product.columns % 8 != 0)
    Wrong(absl::StrFormat("a product of %d columns; a multiple of 8 up to 256 is possible", product.columns));
  if (warp.fences == 0) Wrong("a product before the first FenceProducts");
  if (warp.issued == group.issued.size()) group.issued.push_back({.product = product});
  Issued& issued = group.issued[warp.issued];
  if (!SameProduct(product, issued.product))
    Wrong("the warps of its group give a product different descriptors, or `add`");

  warp.in_flight.emplace_back();
  warp.in_flight.back().product = product;
  Take(warp, lanes);
  InFlight& f = warp.in_flight.back();
  Read(product, f.a, f.b);
  if (product.a_registers != nullptr) Give(warp, lanes);
  ++f.d->products;
  ++warp.issued;
  if (++issued.warps == kWarpsOfGroup) of_.Wake(&group);
}

const void* WarpGroups::Key() { return &groups_[static_cast<size_t>(group())]; }
int WarpGroups::next() const {
  const Warp& warp = warps_[static_cast<size_t>(this->warp())];
  return static_cast<int>(warp.issued - warp.in_flight.size());
}

bool WarpGroups::CanGoOn() const {
  const Group& group = groups_[static_cast<size_t>(this->group())];
  return group.issued[static_cast<size_t>(next())].warps == kWarpsOfGroup;
}

bool WarpGroups::Done(int groups) {
  RequireGroup("WaitForProducts");
  Warp& warp = Mine();
  if (warp.groups.size() <= static_cast<size_t>(groups)) return true;
  const size_t wanted = warp.groups[warp.groups.size() - 1 - static_cast<size_t>(groups)];
  while (warp.issued - warp.in_flight.size() < wanted) {
    if (!CanGoOn()) return false;
    Complete();
  }
  return true;
}

// Does the oldest product of the running thread's warp: 16 rows.
void WarpGroups::Complete() {
  Warp& warp = Mine();
  InFlight& f = warp.in_flight.front();
  const Product& p = f.product;
  Read(p, a_, b_);
  if (f.a != a_ || f.b != b_) Wrong("shared memory that a product reads has changed while it was in flight");
  Sums& d = *f.d;
  float a[kRowsOfWarp][kDepth];
  // "Register Fragments and Shared Memory Matrix Layouts": rows g and g + 8, columns p, p + 1, p + 8 and p + 9
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!Untouched(d.at[lane], d.each)) Wrong("d was written while a product with it was in flight");
    if (p.a_registers == nullptr) continue;
    if (std::memcmp(f.a_at[lane], f.a_values[lane], sizeof(f.a_values[lane])) != 0)
      Wrong("a's registers have changed while a product with them was in flight");
    for (int r = 0; r < 4; ++r) {
      for (int i = 0; i < 2; ++i) {
        a[lane / 4 + r % 2 * 8][lane % 4 * 2 + r / 2 * 8 + i] =
            Number(static_cast<uint16_t>(f.a_values[lane][r] >> (16 * i)), p.bf16);
      }
    }
  }
  if (p.a_registers == nullptr) {
    for (int row = 0; row < kRowsOfWarp; ++row) {
      for (int k = 0; k < kDepth; ++k)
        a[row][k] = Element(f.a, row * 2 + k / kChunkElements, k % kChunkElements, p.bf16);
    }
  }
  float b[kDepth][256];
  for (int k = 0; k < kDepth; ++k) {
    for (int column = 0; column < p.columns; ++column) {
      b[k][column] = p.b_mn_major ? Element(f.b, k * (p.columns / kChunkElements) + column / kChunkElements,
                                            column % kChunkElements, p.bf16)
                                  : Element(f.b, column * 2 + k / kChunkElements, k % kChunkElements, p.bf16);
    }
  }
  for (int row = 0; row < kRowsOfWarp; ++row) {
    float sums[256] = {};
    for (int k = 0; k < kDepth; ++k) {
      for (int column = 0; column < p.columns; ++column) sums[column] += a[row][k] * b[k][column];
    }
    for (int column = 0; column < p.columns; ++column) {
      const int lane = row % 8 * 4 + column % 8 / 2, i = column / 8 * 4 + row / 8 * 2 + column % 2;
      float& sum = d.values[static_cast<size_t>(lane * d.each + i)];
      sum = p.add ? sum + sums[column] : sums[column];
    }
  }
  if (--d.products == 0) {
    for (int lane = 0; lane < kLanes; ++lane)
      std::copy_n(&d.values[static_cast<size_t>(lane * d.each)], d.each, d.at[lane]);
    warp.left[d.at[0]] = {.product = p, .values = d.values, .fences = warp.fences};
  }
  warp.in_flight.pop_front();
}

// ---- Registers ----

bool WarpGroups::AreFree(int registers) const {
  return (registers - warps_[static_cast<size_t>(warp())].registers) * kLanes <= free_;
}

bool WarpGroups::ChangeRegisters(int registers, bool raise, bool first) {
  Warp& warp = Mine();
  if (first) {
    RequireGroup("setmaxnreg");
    if (registers < 24 || registers > kMostRegisters || registers % 8 != 0)
      Wrong(absl::StrFormat("setmaxnreg to %d registers; a multiple of 8 from 24 to 256 is possible", registers));
    if (raise ? registers < warp.registers : registers > warp.registers) {
      Wrong(absl::StrFormat("setmaxnreg.%s from %d to %d registers", raise ? "inc" : "dec", warp.registers, registers));
    }
    for (int other = group() * kWarpsOfGroup; other < (group() + 1) * kWarpsOfGroup; ++other) {
      const std::vector<int>& changes = warps_[static_cast<size_t>(other)].changes;
      if (changes.size() < warp.changes.size())
        Wrong("a second setmaxnreg before all warps of its group have done the first");
      if (changes.size() > warp.changes.size() && changes[warp.changes.size()] != registers)
        Wrong("the warps of its group ask for different numbers of registers");
    }
    warp.changes.push_back(registers);
  }
  if (!AreFree(registers)) return false;
  const int more = (registers - warp.registers) * kLanes;
  free_ -= more;
  warp.registers = registers;
  if (more < 0) of_.Wake(&free_);
  return true;
}

}  // namespace twofold::emulated
