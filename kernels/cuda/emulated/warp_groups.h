// The products of the warp groups of a block, and their registers (hopper.h). Functions with `lanes` are called once
// for a warp, with what each of its threads gave; the running thread is one of it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/emulated/hopper.h"

namespace twofold::emulated {

class AsyncUnits;
class Multiprocessor;

inline constexpr int kLanes = 32;

class WarpGroups {
 public:
  WarpGroups(Multiprocessor& of, AsyncUnits& units) : of_(of), units_(units) {}

  void Begin();
  std::string LeftOver();

  void Multiply(void* const* lanes);  // Product
  void Fence();
  void Commit();
  // Does the warp's products but those of its newest `groups` groups, as far as all warps of its warp group have called
  // them. Returns whether these are all. Otherwise its threads must wait for Key() until CanGoOn().
  bool Done(int groups);
  bool CanGoOn() const;
  const void* Key();
  int group() const;
  int next() const;  // number of its next product to be done

  // What operand of a product in flight overlaps these bytes; null if none does.
  const char* Reads(uint32_t address, uint32_t bytes) const;

  // Returns whether the warp has this many registers now. If not, its threads must wait for registers_key() until
  // AreFree(registers), and it must call again with `first` false.
  bool ChangeRegisters(int registers, bool raise, bool first);
  bool AreFree(int registers) const;
  const void* registers_key() const { return &free_; }
  int registers() const { return free_ / kLanes; }  // that a warp's threads could have more

 private:
  // d, from the first product to the last one that was waited for.
  struct Sums {
    float* at[kLanes];
    int each;                   // registers
    std::vector<float> values;  // [kLanes][each]
    int products = 0;           // in flight
  };
  struct InFlight {
    Product product;  // of lane 0
    std::shared_ptr<Sums> d;
    const uint32_t* a_at[kLanes];
    uint32_t a_values[kLanes][4];
    std::vector<std::byte> a, b;  // as they were when it began: chunks
  };
  struct Left {
    Product product;
    std::vector<float> values;
    int fences;
  };
  struct Given {
    uint32_t values[kLanes][4];
    int fences;
  };
  struct Warp {
    int fences = 0;
    size_t issued = 0;
    std::vector<size_t> groups;  // products up to the end of each
    std::deque<InFlight> in_flight;
    std::unordered_map<const float*, Left> left;       // by lane 0's address: what the last product left in d
    std::unordered_map<const uint32_t*, Given> given;  // the same for a
    int registers = 0;
    std::vector<int> changes;  // of registers
  };
  struct Issued {
    Product product;
    int warps = 0;
  };
  struct Group {
    std::vector<Issued> issued;
  };

  int warp() const;
  Warp& Mine() { return warps_[static_cast<size_t>(warp())]; }
  void RequireGroup(const char* what);
  [[noreturn]] void Wrong(std::string why);
  void Take(Warp& warp, void* const* lanes);
  void Give(Warp& warp, void* const* lanes);
  void Complete();
  // Calls f(chunk) for the addresses of the chunks of an operand, in an order of its own.
  template <class F>
  void EachOfA(uint64_t a, int warp, F f) const;
  template <class F>
  void EachOfB(const Product& product, F f) const;
  // Replaces the contents of a and b.
  void Read(const Product& product, std::vector<std::byte>& a, std::vector<std::byte>& b);

  Multiprocessor& of_;
  AsyncUnits& units_;
  std::vector<Warp> warps_;
  std::vector<Group> groups_;
  int free_ = 0;                  // registers of the block's pool
  std::vector<std::byte> a_, b_;  // operands while a product is done
};

}  // namespace twofold::emulated
