#include "core/tensor/tensor.h"

#include <ostream>

#include "absl/strings/str_join.h"
#include "core/base/strings.h"

namespace twofold {

std::string Shape::ToString() const { return StrCat("[", absl::StrJoin(dims_, ", "), "]"); }

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.ToString(); }

Tensor::Tensor(std::shared_ptr<Buffer> buffer, Shape shape, DType dtype, int64_t byte_offset)
    : buffer_(std::move(buffer)),
      shape_(std::move(shape)),
      byte_offset_(byte_offset),
      numel_(shape_.numel()),
      dtype_(dtype) {
  TWOFOLD_CHECK_LE(byte_offset_ + bytes().value(), buffer_->size().value());
}

Tensor Tensor::View(Shape shape) const {
  TWOFOLD_CHECK_EQ(shape.numel(), numel_);
  return Tensor(buffer_, std::move(shape), dtype_, byte_offset_);
}

Tensor Tensor::Slice(int64_t first, int64_t count) const { return Slice(first, Shape{count}); }

Tensor Tensor::Slice(int64_t first, Shape shape) const {
  TWOFOLD_CHECK_GE(first, 0);
  TWOFOLD_CHECK_LE(first + shape.numel(), numel_);
  return Tensor(buffer_, std::move(shape), dtype_, byte_offset_ + first * ElementSize(dtype_));
}

Tensor Tensor::Borrowed() const {
  return empty() ? Tensor() : Tensor(buffer_->Borrowed(), shape_, dtype_, byte_offset_);
}

std::string Tensor::ToString() const {
  return empty() ? std::string("empty") : StrCat(std::string(DTypeName(dtype_)), shape_.ToString());
}

Tensor Allocate(CachingAllocator& allocator, Shape shape, DType dtype, Category category, std::string_view name) {
  const Bytes size(shape.numel() * ElementSize(dtype));
  const TensorKind kind{.type = DTypeName(dtype), .extents = shape.dims(), .name = name};
  return Tensor(allocator.Allocate(size, category, kind), std::move(shape), dtype);
}

}  // namespace twofold
