// The matrices of attention's operands, as A: read and written in place, strided, if the tensor holds A, otherwise
// through a copy of one matrix.
#pragma once

#include <cstdint>

#include "core/device/ops/unfused_attention.h"
#include "kernels/cpu/kernels.h"

namespace twofold::cpu {

// The matrices [rows, columns] of one operand. `copy` is null if the tensor holds A.
template <class A>
class MatrixAccess {
 public:
  MatrixAccess(ops::Matrices m, int64_t rows, int64_t columns, Scratch& scratch)
      : m_(std::move(m)),
        rows_(rows),
        columns_(columns),
        copy_(m_.tensor.dtype() == DTypeOf<A>::value ? nullptr : scratch.Take<A>(rows * columns)) {}

  int64_t stride() const { return copy_ != nullptr ? columns_ : m_.stride; }
  // The matrix of head `h` of batch `b`, for writing; and with its present values.
  A* At(int64_t b, int64_t h) const { return copy_ != nullptr ? copy_ : m_.tensor.template data<A>() + First(b, h); }
  A* Read(int64_t b, int64_t h) const {
    for (int64_t r = 0; copy_ != nullptr && r < rows_; ++r)
      Convert(Row(b, h, r), m_.tensor.dtype(), copy_ + r * columns_, DTypeOf<A>::value, columns_);
    return At(b, h);
  }
  void Put(int64_t b, int64_t h) const {  // after writing to At(b, h)
    for (int64_t r = 0; copy_ != nullptr && r < rows_; ++r)
      Convert(copy_ + r * columns_, DTypeOf<A>::value, Row(b, h, r), m_.tensor.dtype(), columns_);
  }

 private:
  int64_t First(int64_t b, int64_t h) const { return m_.first + b * m_.batch + h / m_.group * m_.head; }
  void* Row(int64_t b, int64_t h, int64_t r) const { return AddressOf(m_.tensor, First(b, h) + r * m_.stride); }

  ops::Matrices m_;
  int64_t rows_, columns_;
  A* copy_;
};

}  // namespace twofold::cpu
