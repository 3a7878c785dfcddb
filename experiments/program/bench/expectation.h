// Data to bench with, and what each rank should hold afterwards.
//
// Values are small whole numbers above 0, so that what a reduction gives is known without knowing its order, and so that
// the zeros which outputs hold before are never right. Where all partial results fit the element type exactly, one unit of
// difference is wrong; else the bound on the error of any order of summation applies: one rounding of the type an operand.
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

  // Writes this rank's input over all of `in`; an empty tensor is left alone.
  void FillInput(Device& device, Tensor& in) const;
  // Elements of `out`, after a call with blocks of `block` elements, that are not what they should be. An empty tensor has
  // none.
  int64_t CountWrong(Device& device, const Tensor& out, int64_t block) const;

  // Element i of what `rank` brings.
  int64_t Input(int rank, int64_t i) const;
  // Element i of what this rank should hold.
  double Output(int64_t i, int64_t block) const;
  double tolerance() const { return tolerance_; }  // relative; 0: exact

 private:
  double Reduced(int64_t i) const;
  double ReduceAll(int64_t i) const;

  const Operation& operation_;
  const DType dtype_;
  const ReduceOp reduce_;
  const int root_, ranks_, rank_;
  int64_t most_ = 0;             // inputs are 1 to this
  double tolerance_ = 0;
  std::vector<double> reduced_;  // a period of it
};

// Sets element i of `data` to value(first + i).
void Write(DType dtype, std::span<std::byte> data, int64_t first, absl::FunctionRef<int64_t(int64_t)> value);
// Elements of `data` that differ from expected(first + i) by more than `tolerance` times that, NaN included.
int64_t CountWrong(DType dtype, std::span<const std::byte> data, int64_t first,
                   absl::FunctionRef<double(int64_t)> expected, double tolerance);

}  // namespace twofold::bench
