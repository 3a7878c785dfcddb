// Element types, reductions and counts in MPI's terms.
//
// MPI-3 counts are ints. Movement of more elements than Limits says uses a derived type that holds them all and a count
// of one; reductions, which MPI defines on its basic types only, go in pieces.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "core/comm/reduce_op.h"
#include "core/comm/staging.h"
#include "core/tensor/dtype.h"

namespace twofold::mpi {

// What tests change, so that they need no gigabytes.
struct Limits {
  int64_t most_elements = int64_t{1} << 30;  // that one call names by a count
  Bytes staging = HostStaging::kBytes;           // of a group, where buffers on GPUs are staged
  bool reaches_gpus = false;                 // true: the library does, whatever it says
};

// What MPI said, where it was not MPI_SUCCESS.
std::string ErrorText(int code);
// Throws std::runtime_error("MPI_Allreduce: ...") where `code` is an error; SizeMismatch where it is MPI_ERR_TRUNCATE.
void Check(int code, const char* call);

// What came has another size than what was expected: the ranks' calls do not match.
struct SizeMismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

MPI_Datatype TypeOf(DType dtype);                // bf16 and f16: two bytes
MPI_Op OpOf(DType dtype, ReduceOp op);           // kAvg: the sum; bf16 and f16: ours, in f32, rounded at every step; u8: ours

// `count` elements of `type` as a count and a type that MPI-3 takes. Frees what it made.
class Counted {
 public:
  Counted(int64_t count, MPI_Datatype type, const Limits& limits);
  ~Counted();
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_;
  bool made_ = false;
};

}  // namespace twofold::mpi
