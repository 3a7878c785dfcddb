// Hopper's asynchronous instructions, for the emulated half of kernels/cuda/hopper.h, which says what each does.
// Section names are those of the PTX ISA 8.x. Called by the threads of a kernel.
//
// What the manual leaves open is done in the way that is worst for a wrong kernel, and what it forbids is reported, as
// a missing thread at a barrier is (threads.h): a report on stderr, and cudaErrorLaunchFailure.
//
//   Products   are done when they are waited for. Until then d holds NaNs. It is an error if d, the registers of a or
//              the operands in shared memory change before; if the threads of a warp group give different descriptors;
//              if no FenceProducts precedes the first product, or if d or a have changed since the last one.
//   Copies     are done, in half of the blocks, when no thread can continue otherwise, else at any moment, in an order
//              of their own. Meanwhile the target holds 0xff bytes. It is an error if it overlaps that of another copy
//              in flight or an operand of a product in flight.
//   Proxies    The async proxy has its own view of the dynamic shared memory. Copies change both. What threads store
//              reaches it with the next fence.proxy.async, by whichever thread, and it is an error if a product or a
//              copy meets bytes that have not. So a missing fence is found, but not one by the wrong thread.
//   Barriers   An arrival too many, a count out of range, a second InitBarrier, an overwritten barrier and a copy that
//              counts on a barrier without FenceBarrierInit are errors. Waiting for a phase that never ends is reported
//              once no thread can continue, and so is waiting at a named barrier or for registers.
//   Registers  A block begins with the largest multiple of 8 per thread, at most 256, of which its threads have room in
//              65536; these are its pool.
//
// Not found: accesses to d that only read; a's registers written after the fence and before their first product.
#pragma once

#include <cstdint>

namespace twofold::emulated {

// The 32-bit address in the shared window of an address within dynamic or static shared memory.
uint32_t SharedWindow(const void* in_shared_memory);

// d[64, columns] = a[64, 16] * b[16, columns] (+ d).
struct Product {
  int columns;      // 8 to 256, a multiple of 8
  bool bf16;        // elements: bf16, otherwise f16
  bool b_mn_major;  // otherwise K-major
  bool add;
  const uint32_t* a_registers;  // 4; null: a is in shared memory, K-major
  uint64_t a, b;                // descriptors; a is 0 if it is in registers
  float* d;                     // columns / 2
};
void Multiply(const Product& product);
void FenceProducts();
void CommitProducts();
void WaitForProducts(int groups);

void InitBarrier(uint32_t barrier, int arrivals);
void FenceBarrierInit();  // and fence.proxy.async
void Arrive(uint32_t barrier);
void ArriveAndExpect(uint32_t barrier, int bytes);
void WaitForPhase(uint32_t barrier, int parity);

// A tensor of three dimensions in global memory, as in TiledTensor, with the 128-byte swizzle.
struct Tiles {
  const void* data;
  uint64_t sizes[3], strides[2];
  uint32_t box[3];
  uint32_t element;  // bytes
};
void CopyTile(uint32_t to, const Tiles& map, const int (&at)[3], uint32_t barrier);

void WaitAtBarrier(int id, int threads);
void ArriveAtBarrier(int id, int threads);

void ChangeRegisters(int registers, bool raise);

}  // namespace twofold::emulated
