// Operands for measurements: slices of pools that are larger than a core's private caches, taken in turn.
//
// Each request gets the part of its pool that was used longest ago. So an operand comes from the outer caches or from
// memory, as most operands of a training step do, and not from the private cache filled by the previous call.
#pragma once

#include <array>
#include <functional>
#include <map>

#include "core/device/device.h"
#include "core/memory/source.h"

namespace twofold::calibrate {

// Provides the operands of a case.
class Operands {
 public:
  static constexpr int kIds = 64;

  virtual ~Operands() = default;
  virtual Tensor Input(Shape shape, DType dtype) = 0;   // standard normal
  virtual Tensor Output(Shape shape, DType dtype) = 0;  // to be written; of any type
  virtual Tensor State(Shape shape, DType dtype) = 0;   // optimizer state, in [0.5, 1): not near zero
  virtual Tensor Ids(Shape shape) = 0;                  // U8, each below kIds
  // Row numbers of a table of vocabulary() rows, or class numbers: each below `below`, which is at least kIds.
  virtual Tensor Tokens(Shape shape, int64_t /*below*/) { return Ids(std::move(shape)); }
  virtual int64_t vocabulary() const { return kIds; }
  // The routing of tokens that choose evenly among experts: number t * k + j is choice j of token t, dealt out in turn.
  // Writable, but only with values of the same kind.
  virtual ops::Choices Choices(int64_t tokens, int64_t k, int64_t experts) = 0;
  // I32: k positions in [0, n), ascending, as far apart as possible. Read-only.
  virtual Tensor Places(int64_t k, int64_t n) = 0;
  virtual Tensor Centres(Shape shape) = 0;  // U8, each the middle of a 3 x 3 window; read-only
};

// Provides shapes without memory, to get an operation's name and cost.
class ShapesOnly : public Operands {
 public:
  // `vocabulary`: that of the operands that the operations ran on.
  explicit ShapesOnly(int64_t vocabulary = kIds) : vocabulary_(vocabulary) {}
  Tensor Input(Shape shape, DType dtype) override {
    return Allocate(allocator_, std::move(shape), dtype, Category::kOther);
  }
  Tensor Output(Shape shape, DType dtype) override { return Input(std::move(shape), dtype); }
  Tensor State(Shape shape, DType dtype) override { return Input(std::move(shape), dtype); }
  Tensor Ids(Shape shape) override { return Input(std::move(shape), DType::kU8); }
  Tensor Tokens(Shape shape, int64_t) override {
    return Input(std::move(shape), vocabulary_ == kIds ? DType::kU8 : DType::kI32);
  }
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
    Bytes wide = MiB(24), narrow = MiB(8);  // pools of inputs and of outputs: of f32, and of each narrower type
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
