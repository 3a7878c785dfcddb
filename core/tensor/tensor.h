// A tensor: shape and element type over a buffer of device memory. Contiguous, row-major; views share the buffer.
//
// Tensors are handles: copying one copies no data. The storage may hold no data (a simulated rank's SYMBOLIC tensors
// have only an address and a size). Only kernels and tests need to know.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "core/base/check.h"
#include "core/memory/allocator.h"
#include "core/tensor/dtype.h"

namespace twofold {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {}
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i < 0 ? i + rank() : i)]; }  // -1: last
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t d : dims_) n *= d;
    return n;
  }
  std::string ToString() const;  // "[4, 128]"
  friend bool operator==(const Shape&, const Shape&) = default;
  std::span<const int64_t> dims() const { return dims_; }
  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }

 private:
  absl::InlinedVector<int64_t, 4> dims_;
};
std::ostream& operator<<(std::ostream& out, const Shape& shape);

class Tensor {
 public:
  Tensor() = default;  // no storage: empty() is true
  Tensor(std::shared_ptr<Buffer> buffer, Shape shape, DType dtype, int64_t byte_offset = 0);

  bool empty() const { return buffer_ == nullptr; }
  // True if no other tensor shares the buffer, so the owner of this handle may overwrite it. Depends on program order
  // alone.
  bool unique() const { return buffer_.use_count() == 1 && !buffer_->borrowed(); }
  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_[i]; }
  DType dtype() const { return dtype_; }
  int64_t numel() const { return numel_; }
  Bytes bytes() const { return Bytes(numel_ * ElementSize(dtype_)); }

  // The same elements under another shape of equal size.
  Tensor View(Shape shape) const;
  Tensor Flat() const { return View(Shape{numel_}); }
  // Elements [first, first + count) of the flattened tensor, in the form `shape`, which must have `count` elements.
  Tensor Slice(int64_t first, int64_t count) const;
  Tensor Slice(int64_t first, Shape shape) const;

  // The same tensor without ownership of its buffer. For communication, because the last owner must release the buffer
  // on the rank's own thread. Someone else must keep the data until the stream that uses it is done, or must order any
  // reuse of the memory after that stream. The handle itself keeps nothing alive.
  Tensor Borrowed() const;

  const CachingAllocator& allocator() const { return buffer_->allocator(); }  // the memory that holds it
  bool has_data() const { return buffer_ != nullptr && buffer_->host_accessible(); }
  Address address() const { return buffer_->address() + static_cast<Address>(byte_offset_); }
  // For kernels, transports and tests. T must match dtype; the storage must hold data.
  template <class T>
  T* data() const {
    TWOFOLD_CHECK(DTypeOf<T>::value == dtype_, "the element type must be that of the tensor");
    return static_cast<T*>(raw());
  }
  void* raw() const {
    TWOFOLD_CHECK(has_data(), "this tensor is symbolic: it has a size and no data");
    return reinterpret_cast<void*>(address());
  }
  std::string ToString() const;  // "f32[4, 128]"

 private:
  std::shared_ptr<Buffer> buffer_;
  Shape shape_;
  int64_t byte_offset_ = 0;
  int64_t numel_ = 0;
  DType dtype_ = DType::kF32;
};

// A tensor with a buffer of its own. Throws OutOfMemory. `name`: for the allocator's owners.
Tensor Allocate(CachingAllocator& allocator, Shape shape, DType dtype, Category category, std::string_view name = {});

}  // namespace twofold
