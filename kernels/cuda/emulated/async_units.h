// What runs beside the threads of a block on a Hopper GPU: the copies of the tensor memory accelerator, barriers in
// shared memory, named barriers, and the products of warp groups. hopper.h says how it treats wrong kernels. All
// functions but Begin and LeftOver are called by the threads of the block, which take turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/emulated/hopper.h"
#include "kernels/cuda/emulated/multiprocessor.h"
#include "kernels/cuda/emulated/warp_groups.h"

namespace twofold::emulated {

class AsyncUnits {
 public:
  explicit AsyncUnits(Multiprocessor& of) : of_(of), groups_(of, *this) {}

  void Begin();            // of a block
  std::string LeftOver();  // at the end of a block: what must not be there; "" if there is nothing
  std::string Describe(const Waiting& waiting) const;
  WarpGroups& groups() { return groups_; }

  // ---- Shared memory ----

  uint32_t Window(const void* address);
  // The 16 bytes at `address` as the async proxy sees them. It is an error if they are outside the dynamic shared
  // memory, if a copy to them is in flight, or if threads have stored to them without a fence.
  const std::byte* Chunk(uint32_t address, const char* what);
  void FenceProxy();

  // ---- Barriers in shared memory ----

  // Returns where it is, and the value that its memory must keep.
  struct Mark {
    uint64_t* at;
    uint64_t value;
  };
  Mark Init(uint32_t barrier, int arrivals);
  void FenceInit();
  const uint64_t* At(uint32_t barrier);
  void Arrive(uint32_t barrier, int bytes);
  void WaitForPhase(uint32_t barrier, int parity);

  // ---- Copies ----

  void Start(uint32_t to, const Tiles& map, const int (&at)[3], uint32_t barrier);
  bool Copy();  // completes one of the copies in flight; false if there is none
  void MaybeCopy() {
    if (early_ && !copies_.empty() && of_.Random() >> 61 == 0) Copy();
  }

  // ---- Named barriers. For a warp: returns the number of completed barriers ----

  unsigned ArriveAt(int id, int threads);
  void WaitAt(int id, unsigned turn);
  void* Order(int id) { return &named_[id & 15]; }  // stands for the barrier to the thread sanitizer

 private:
  struct Barrier {
    uint64_t mark;
    int arrivals, pending, bytes = 0;
    unsigned phases = 0;  // completed
    int by;               // thread that called Init
    bool fenced = false;
  };
  struct InFlight {
    uint32_t to, bytes;
    Tiles map;
    int at[3];
    uint32_t barrier;
  };
  struct Named {
    int threads = 0, arrived = 0;
    unsigned turn = 0;
    uint32_t warps = 0;  // those that have arrived
  };

  std::byte* Host(uint32_t address, uint32_t bytes, const char* what);
  size_t Offset(uint32_t address, uint32_t bytes, const char* what) const;  // within the dynamic shared memory
  Barrier& Of(uint32_t address);
  void Count(uint32_t address, Barrier& barrier, int arrivals, int bytes);

  Multiprocessor& of_;
  uint32_t base_ = 0;            // address of the dynamic shared memory in the window
  std::vector<std::byte> view_;  // of the async proxy, of the dynamic shared memory
  std::unordered_map<uint32_t, Barrier> barriers_;
  std::vector<InFlight> copies_;
  Named named_[16];
  WarpGroups groups_;
  bool early_ = false;  // copies may be done before they must
};

}  // namespace twofold::emulated
