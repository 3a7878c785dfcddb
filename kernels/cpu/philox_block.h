// Many numbers of a Philox sequence at once, in parallel: those that core/base/philox.h defines, to the bit.
#pragma once

#include <cstdint>

#include "core/base/philox.h"
#include "core/device/ops/op.h"

namespace twofold::cpu {

// Numbers [index, index + n) of the key's sequence.
void Numbers(PhiloxKey key, uint64_t index, int64_t n, uint32_t* out);
// HalfAt of [index, index + n), n <= kChunk.
void Halves(PhiloxKey key, uint64_t index, int64_t n, uint16_t* out);

// Calls draw(index in the whole, first element, count) for every run of elements in [first, first + count) that is
// contiguous in the whole.
template <class Draw>
void ForRuns(const ops::IndexMap& where, int64_t first, int64_t count, const Draw& draw) {
  for (int64_t done = 0; done < count;) {
    const int64_t run = where.RunFrom(first + done, count - done);
    draw(static_cast<uint64_t>(where.Of(first + done)), done, run);
    done += run;
  }
}

}  // namespace twofold::cpu
