// Operands for measurements: slices of pools that are larger than a core's own caches, taken in turn.
//
// Each request gets the part of its pool that was used longest ago, so that an operand comes from the outer caches or
// from memory, as most operands of a training step do, and not from the cache of the call before.
#pragma once

#include <array>
#include <functional>
#include <map>

#include "core/device/device.h"
#include "core/memory/source.h"

namespace twofold::calibrate {

// Where a case gets its operands from.
class Operands {
 public:
  static constexpr int kIds = 64;

  virtual ~Operands() = default;
  virtual Tensor Input(Shape shape, DType dtype) = 0;   // standard normal
  virtual Tensor Output(Shape shape, DType dtype) = 0;  // to be written; of any type
  virtual Tensor State(Shape shape, DType dtype) = 0;   // in [0.5, 1): what optimizers keep, none of it near zero
  virtual Tensor Ids(Shape shape) = 0;                  // U8, each below kIds
  // Rows of a table of vocabulary() rows, or classes: each below `below`, which is kIds or more.
  virtual Tensor Tokens(Shape shape, int64_t /*below*/) { return Ids(std::move(shape)); }
  virtual int64_t vocabulary() const { return kIds; }
  // Of tokens that chose evenly among experts: number t * k + j is token t's choice j, dealt out in turn. May be written, to such.
  virtual ops::Choices Choices(int64_t tokens, int64_t k, int64_t experts) = 0;
  // I32: k places in [0, n), as far apart as may be, in order. Not to be written.
  virtual Tensor Places(int64_t k, int64_t n) = 0;
  virtual Tensor Centres(Shape shape) = 0;              // U8, each the middle of a window of 3 x 3; not to be written
};

// Shapes alone, on memory that does not exist: for what an operation is called and costs.
class ShapesOnly : public Operands {
 public:
  // `vocabulary`: as that of the operands that the operations ran on.
  explicit ShapesOnly(int64_t vocabulary = kIds) : vocabulary_(vocabulary) {}
  Tensor Input(Shape shape, DType dtype) override { return Allocate(allocator_, std::move(shape), dtype, Category::kOther); }
  Tensor Output(Shape shape, DType dtype) override { return Input(std::move(shape), dtype); }
  Tensor State(Shape shape, DType dtype) override { return Input(std::move(shape), dtype); }
  Tensor Ids(Shape shape) override { return Input(std::move(shape), DType::kU8); }
  Tensor Tokens(Shape shape, int64_t) override { return Input(std::move(shape), vocabulary_ == kIds ? DType::kU8 : DType::kI32); }
  int64_t vocabulary() const override { return vocabulary_; }
  ops::Choices Choices(int64_t tokens, int64_t k, int64_t) override {
    return {.experts = Input({tokens, k}, DType::kI32), .places = Input({tokens, k}, DType::kI32)};
  }
  Tensor Places(int64_t k, int64_t) override { return Input({k}, DType::kI32); }
  Tensor Centres(Shape shape) override { return Input(std::move(shape), DType::kU8); }

 private:
  const int64_t vocabulary_;
  VirtualSource source_;
  CachingAllocator allocator_{source_, 0};
};

class Arena : public Operands {
 public:
  struct Sizes {
    Bytes wide = MiB(24), narrow = MiB(8);  // inputs and outputs, each: of f32, and of each narrower type
    Bytes state = MiB(64), narrow_state = Bytes(64 * 1048576 / 3);
  };
  explicit Arena(Device& device) : Arena(device, Sizes()) {}
  Arena(Device& device, const Sizes& sizes) : device_(device), sizes_(sizes) {}

  Tensor Input(Shape shape, DType dtype) override;
  Tensor Output(Shape shape, DType dtype) override;
  Tensor State(Shape shape, DType dtype) override;
  Tensor Ids(Shape shape) override;
  ops::Choices Choices(int64_t tokens, int64_t k, int64_t experts) override;
  Tensor Places(int64_t k, int64_t n) override;
  Tensor Centres(Shape shape) override;

 protected:
  Tensor Numbers(Shape shape, const std::function<int64_t(int64_t)>& value_of);  // I32

  Device& device_;

 private:
  enum class Use { kInput, kOutput, kState, kIds, kCentres };
  struct Pool {
    Tensor all;
    int64_t next = 0;  // element
  };
  Tensor Take(Use use, Shape shape, DType dtype);
  Pool MakePool(Use use, DType dtype);

  const Sizes sizes_;
  std::map<std::pair<Use, DType>, Pool> pools_;
  std::map<std::array<int64_t, 3>, ops::Choices> choices_;
  std::map<std::array<int64_t, 2>, Tensor> places_;
};

}  // namespace twofold::calibrate
