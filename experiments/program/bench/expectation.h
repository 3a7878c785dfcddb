// Input data for the bench, and the output that each rank should then hold.
//
// Values are small whole numbers above 0. So the result of a reduction does not depend on its order, and the zeros that
// outputs hold before the call are never correct. If all partial results fit the element type exactly, a difference of
// one unit is wrong. Otherwise the tolerance is the error bound of summation in any order: one rounding of the type per
// operand.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/device/device.h"
#include "experiments/program/bench/operations.h"

namespace twofold::bench {

class Expectation {
 public:
  Expectation(const Operation& operation, DType dtype, ReduceOp reduce, int root, int ranks, int rank);

  // Writes this rank's input over all of `in`; does nothing if the tensor is empty.
  void FillInput(Device& device, Tensor& in) const;
  // The number of wrong elements in `out` after a call with blocks of `block` elements; 0 for an empty tensor.
  int64_t CountWrong(Device& device, const Tensor& out, int64_t block) const;

  // Element i of the input of `rank`.
  int64_t Input(int rank, int64_t i) const;
  // Element i of this rank's expected output.
  double Output(int64_t i, int64_t block) const;
  double tolerance() const { return tolerance_; }  // relative; 0: exact

 private:
  double Reduced(int64_t i) const;
  double ReduceAll(int64_t i) const;

  const Operation& operation_;
  const DType dtype_;
  const ReduceOp reduce_;
  const int root_, ranks_, rank_;
  int64_t most_ = 0;  // inputs are 1 to this
  double tolerance_ = 0;
  std::vector<double> reduced_;  // one period of the reduced values
};

// Sets element i of `data` to value(first + i).
void Write(DType dtype, std::span<std::byte> data, int64_t first, absl::FunctionRef<int64_t(int64_t)> value);
// The number of elements of `data` that differ from expected(first + i) by more than `tolerance` times that; NaN
// counts.
int64_t CountWrong(DType dtype, std::span<const std::byte> data, int64_t first,
                   absl::FunctionRef<double(int64_t)> expected, double tolerance);

}  // namespace twofold::bench
