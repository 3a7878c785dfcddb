// How a flat tensor of gradients becomes fewer bytes and is decoded again. What the ranks do with the bytes is said in
// coded_reducer.h, so a codec works in every layout of data parallelism.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/nn/context.h"
#include "core/tensor/tensor.h"
#include "strategies/data_parallel/reducer.h"

namespace twofold {

// An encoded tensor, or several of equal size, one after the other: codes and their scales, signs and their scales,
// values and their indices. `side` is empty if the codec needs one tensor only.
struct Encoded {
  Tensor body, side;
};

// How many elements `body` and `side` of one encoded tensor have, and of which type. They depend on the number of
// elements that are encoded and on the step, never on values, so every rank knows the size of every message.
struct EncodedSize {
  int64_t body = 0, side = 0;
  DType body_type = DType::kU8, side_type = DType::kF32;
};

// Which part of a bucket is encoded, and when. Draws depend on it, so that no two are the same.
struct Place {
  int stage = 0;      // of the exchange
  int64_t first = 0;  // the part's first element, counted from the stage's first
  int64_t round = 0;  // number of the bucket's earlier reductions in this step
};

// One object per bucket and rank, used from the rank's thread.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual EncodedSize SizeOf(int64_t numel, int64_t step) const = 0;
  // Called before the first stage. `in`: this rank's gradients. Returns what is to be encoded instead.
  virtual Tensor Prepare(nn::Context&, Tensor in) { return in; }
  // Encodes `in` [n], in F32 or F64. `residual` [n]: in - decoded; it may be empty or `in`.
  virtual void Encode(nn::Context& ctx, const Tensor& in, const Tensor& residual, const Encoded& out,
                      const Place& place) = 0;
  // out = decoded, or out += decoded. `out` [n] has any floating-point type.
  virtual void Decode(nn::Context& ctx, const Encoded& in, const Tensor& out, bool accumulate) = 0;
  // Multiplies what several encoded tensors decode to, without decoding them.
  virtual void Scale(nn::Context& ctx, const Encoded& in, double factor) = 0;
  // Whether a sum of decoded tensors may be encoded again. If not, ranks that all need the mean send each other what
  // they have encoded, instead of parts of the sum.
  virtual bool encodes_sums() const { return true; }
  virtual std::vector<ReducerState> State() const { return {}; }
};

using MakeCodec = std::function<std::unique_ptr<Codec>(nn::Context&, const Bucket&)>;

}  // namespace twofold
