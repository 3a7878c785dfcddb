// Element types, reductions and counts in MPI's terms.
//
// MPI-3 counts are ints. A transfer of more elements than Limits allows uses one derived type that holds them all and a
// count of one. Reductions, which MPI defines on its basic types only, are split into pieces.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "core/comm/reduce_op.h"
#include "core/comm/staging.h"
#include "core/tensor/dtype.h"

namespace twofold::mpi {

// Limits that tests lower, so that they need no gigabytes.
struct Limits {
  int64_t most_elements = int64_t{1} << 30;  // elements passed as a plain count in one call
  Bytes staging = HostStaging::kBytes;       // of a group, if GPU buffers are staged
  bool reaches_gpus = false;  // true: assume that the library reaches GPUs, regardless of what it reports
};

// MPI's message for a code other than MPI_SUCCESS.
std::string ErrorText(int code);
// Throws std::runtime_error("MPI_Allreduce: ...") if `code` is an error; SizeMismatch if it is MPI_ERR_TRUNCATE.
void Check(int code, const char* call);

// A received message has another size than expected: the ranks' calls do not match.
struct SizeMismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

MPI_Datatype TypeOf(DType dtype);  // BF16 and F16: two bytes
// kAvg: the sum; BF16 and F16: our own, in F32, rounded at every step; U8: our own.
MPI_Op OpOf(DType dtype, ReduceOp op);

// `count` elements of `type`, as a count and a type that MPI-3 accepts. Frees the type if it created one.
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
