#include "backends/mpi/types.h"

#include <array>
#include <stdexcept>
#include <string>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "kernels/cpu/reduce.h"

namespace twofold::mpi {
namespace {

// MPI computes inout = in op inout, where `in` is the lower ranks' part.
template <DType kType, ReduceOp kOp>
void Combine(void* in, void* inout, int* count, MPI_Datatype*) {
  const void* inputs[] = {in, inout};
  cpu::ReduceSlices(inputs, {&inout, 1}, kType, kOp, 0, *count);
}

MPI_Datatype MakePair() {
  MPI_Datatype type;
  Check(MPI_Type_contiguous(2, MPI_BYTE, &type), "MPI_Type_contiguous");
  Check(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

MPI_Op MakeOp(MPI_User_function* function) {
  MPI_Op op;
  Check(MPI_Op_create(function, 1, &op), "MPI_Op_create");
  return op;
}

// Our operation for one type, by ReduceOp; created at first use, after MPI_Init.
template <DType kType>
MPI_Op OwnOp(ReduceOp op) {
  static const MPI_Op sum = MakeOp(Combine<kType, ReduceOp::kSum>),
                      product = MakeOp(Combine<kType, ReduceOp::kProduct>),
                      min = MakeOp(Combine<kType, ReduceOp::kMin>), max = MakeOp(Combine<kType, ReduceOp::kMax>);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return sum;
    case ReduceOp::kProduct: return product;
    case ReduceOp::kMin: return min;
    case ReduceOp::kMax: return max;
  }
  return sum;
}

MPI_Datatype Contiguous(int64_t count, MPI_Datatype type) {
  MPI_Datatype result;
  Check(MPI_Type_contiguous(static_cast<int>(count), type, &result), "MPI_Type_contiguous");
  return result;
}

// A type that holds all `count` elements: whole chunks, then the rest.
MPI_Datatype Large(int64_t count, MPI_Datatype type, int64_t most) {
  MPI_Aint lower, extent;
  Check(MPI_Type_get_extent(type, &lower, &extent), "MPI_Type_get_extent");
  MPI_Datatype chunk = Contiguous(most, type), chunks = Contiguous(count / most, chunk),
               rest = Contiguous(count % most, type);
  const std::array<int, 2> lengths = {1, 1};
  const std::array<MPI_Aint, 2> places = {0, count / most * most * extent};
  const std::array<MPI_Datatype, 2> types = {chunks, rest};
  MPI_Datatype all;
  Check(MPI_Type_create_struct(2, lengths.data(), places.data(), types.data(), &all), "MPI_Type_create_struct");
  Check(MPI_Type_commit(&all), "MPI_Type_commit");
  for (MPI_Datatype* part : {&chunk, &chunks, &rest}) MPI_Type_free(part);
  return all;
}

}  // namespace

std::string ErrorText(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return StrCat("error ", code);
  return std::string(text, static_cast<size_t>(length));
}

void Check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  int kind = code;
  MPI_Error_class(code, &kind);
  if (kind == MPI_ERR_TRUNCATE)
    throw SizeMismatch(StrCat(call, ": more data arrived than expected (", ErrorText(code), ")"));
  throw std::runtime_error(StrCat(call, ": ", ErrorText(code)));
}

MPI_Datatype TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64: return MPI_DOUBLE;
    case DType::kF32: return MPI_FLOAT;
    case DType::kI32: return MPI_INT32_T;
    case DType::kU8: return MPI_UINT8_T;
    case DType::kBF16:
    case DType::kF16: break;
  }
  static const MPI_Datatype pair = MakePair();
  return pair;
}

MPI_Op OpOf(DType dtype, ReduceOp op) {
  if (dtype == DType::kBF16) return OwnOp<DType::kBF16>(op);
  if (dtype == DType::kF16) return OwnOp<DType::kF16>(op);
  // Open MPI 4.1's vectorized sums of bytes saturate where its scalar ones wrap around.
  if (dtype == DType::kU8) return OwnOp<DType::kU8>(op);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return MPI_SUM;
    case ReduceOp::kProduct: return MPI_PROD;
    case ReduceOp::kMin: return MPI_MIN;
    case ReduceOp::kMax: return MPI_MAX;
  }
  return MPI_SUM;
}

Counted::Counted(int64_t count, MPI_Datatype type, const Limits& limits)
    : count_(static_cast<int>(count)), type_(type) {
  TWOFOLD_CHECK_GE(count, 0);
  if (count <= limits.most_elements) return;
  count_ = 1;
  type_ = Large(count, type, limits.most_elements);
  made_ = true;
}

Counted::~Counted() {
  if (made_) MPI_Type_free(&type_);
}

}  // namespace twofold::mpi
