#include "kernels/cuda/emulated/hopper.h"

#include <cstdio>
#include <cstdlib>

#include "kernels/cuda/emulated/async_units.h"
#include "kernels/cuda/emulated/thread_sanitizer.h"

namespace twofold::emulated {
namespace {

AsyncUnits& Units() {
  Multiprocessor* const here = Multiprocessor::Here();
  if (here == nullptr) {
    std::fprintf(stderr, "emulated CUDA: an instruction of Hopper was called by the host\n");
    std::abort();
  }
  return here->async();
}

// Accesses that the thread sanitizer sees: who uses a barrier must come after who initialised it.
void Write(const AsyncUnits::Mark& mark) { *mark.at = mark.value; }
void Look(const uint64_t* mark) { [[maybe_unused]] const uint64_t seen = *static_cast<const volatile uint64_t*>(mark); }

const uint64_t* At(uint32_t barrier) {
  const Unseen unseen;
  return Units().At(barrier);
}

// All lanes of a warp come together, and `what` is called once.
template <class F>
void AsWarp(F) {
  WarpTogether(~0u, nullptr, [](void* const*, int) { F()(Units().groups()); });
}

}  // namespace

uint32_t SharedWindow(const void* in_shared_memory) {
  const Unseen unseen;
  return Units().Window(in_shared_memory);
}

// ---- Products ----

void Multiply(const Product& product) {
  Product mine = product;
  WarpTogether(~0u, &mine, [](void* const* lanes, int) { Units().groups().Multiply(lanes); });
}
void FenceProducts() {
  AsWarp([](WarpGroups& groups) { groups.Fence(); });
}
void CommitProducts() {
  AsWarp([](WarpGroups& groups) { groups.Commit(); });
}
void WaitForProducts(int groups) {
  struct Mine {
    int groups;
    bool done;
  } mine = {groups, false};
  while (true) {
    WarpTogether(~0u, &mine, [](void* const* lanes, int count) {
      const bool done = Units().groups().Done(static_cast<const Mine*>(lanes[0])->groups);
      for (int i = 0; i < count; ++i) static_cast<Mine*>(lanes[i])->done = done;
    });
    if (mine.done) return;
    const Unseen unseen;
    WarpGroups& of = Units().groups();
    if (!of.CanGoOn()) {
      Multiprocessor::Here()->WaitFor(
          of.Key(), {.what = Waiting::For::kProducts, .which = static_cast<uint32_t>(of.group()), .wanted = of.next()});
    }
  }
}

// ---- Barriers in shared memory ----

void InitBarrier(uint32_t barrier, int arrivals) {
  AsyncUnits::Mark mark;
  {
    const Unseen unseen;
    mark = Units().Init(barrier, arrivals);
  }
  Write(mark);
}
void FenceBarrierInit() {
  const Unseen unseen;
  Units().FenceInit();
}
void Arrive(uint32_t barrier) { ArriveAndExpect(barrier, 0); }
void ArriveAndExpect(uint32_t barrier, int bytes) {
  Look(At(barrier));
  const Unseen unseen;
  Units().Arrive(barrier, bytes);
}
void WaitForPhase(uint32_t barrier, int parity) {
  Look(At(barrier));
  const Unseen unseen;
  Units().WaitForPhase(barrier, parity);
}

void CopyTile(uint32_t to, const Tiles& map, const int (&at)[3], uint32_t barrier) {
  Look(At(barrier));
  const Unseen unseen;
  Units().Start(to, map, at, barrier);
}

// ---- Named barriers ----

namespace {

struct AtNamed {
  int id, threads;
  unsigned turn;
};
void ComeTo(void* const* lanes, int count) {
  const AtNamed& first = *static_cast<const AtNamed*>(lanes[0]);
  for (int i = 0; i < count; ++i) {
    const AtNamed& other = *static_cast<const AtNamed*>(lanes[i]);
    if (other.id != first.id || other.threads != first.threads)
      Multiprocessor::Here()->Fail("the lanes of a warp come to different named barriers, or for different counts");
  }
  const unsigned turn = Units().ArriveAt(first.id, first.threads);
  for (int i = 0; i < count; ++i) static_cast<AtNamed*>(lanes[i])->turn = turn;
}

}  // namespace

void WaitAtBarrier(int id, int threads) {
  AtNamed mine = {id, threads, 0};
  {
    const Unseen unseen;
    ComesBefore(Units().Order(id));
  }
  WarpTogether(~0u, &mine, ComeTo);
  const Unseen unseen;
  Units().WaitAt(id, mine.turn);
  ComesAfter(Units().Order(id));
}
void ArriveAtBarrier(int id, int threads) {
  AtNamed mine = {id, threads, 0};
  {
    const Unseen unseen;
    ComesBefore(Units().Order(id));
  }
  WarpTogether(~0u, &mine, ComeTo);
}

// ---- Registers ----

void ChangeRegisters(int registers, bool raise) {
  struct Mine {
    int registers;
    bool raise, first, done;
  } mine = {registers, raise, true, false};
  while (true) {
    WarpTogether(~0u, &mine, [](void* const* lanes, int count) {
      const Mine first = *static_cast<const Mine*>(lanes[0]);
      for (int i = 0; i < count; ++i) {
        const Mine& other = *static_cast<const Mine*>(lanes[i]);
        if (other.registers != first.registers || other.raise != first.raise)
          Multiprocessor::Here()->Fail("the lanes of a warp change their registers differently");
      }
      const bool done = Units().groups().ChangeRegisters(first.registers, first.raise, first.first);
      for (int i = 0; i < count; ++i) {
        static_cast<Mine*>(lanes[i])->first = false;
        static_cast<Mine*>(lanes[i])->done = done;
      }
    });
    if (mine.done) return;
    const Unseen unseen;
    WarpGroups& of = Units().groups();
    if (!of.AreFree(registers)) {
      Multiprocessor::Here()->WaitFor(of.registers_key(),
                                      {.what = Waiting::For::kRegisters, .which = 0, .wanted = registers});
    }
  }
}

}  // namespace twofold::emulated
