// What a transformer is made of, by its makers: models (gpt.h, llama.h) say which layers there are, a Layers decides how each is
// done. This one does each on one rank; a strategy that splits layers over ranks overrides what it splits, and the model's text
// stays the same. Sizes handed in are always those of the whole model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/nn/dropout.h"
#include "core/nn/linear.h"
#include "core/nn/rotary.h"

namespace twofold::nn {

enum class Norm { kLayerNorm, kRmsNorm };

// The heads of an attention layer.
struct Heads {
  int64_t queries = 1, keys = 1;  // keys: of keys and of values; divides queries
  int64_t width = 0;
  int64_t all() const { return queries + 2 * keys; }
};

// A table and what looks rows of it up.
struct TokenEmbedding {
  std::unique_ptr<Module> module;
  Parameter* weight;
};

// Ends the forward pass: two inputs, so not a module. Shapes as in loss.h.
class Loss {
 public:
  virtual ~Loss() = default;
  // The mean of the rows' losses, one element.
  virtual Tensor Forward(Context& ctx, const Tensor& logits, const Tensor& targets, Saved& saved) = 0;
  // The gradient of scale * loss; may be written over the logits.
  virtual Tensor Backward(Context& ctx, Saved& saved, double scale) = 0;
  // The losses of the rows; nothing is kept.
  virtual Tensor Losses(Context& ctx, const Tensor& logits, const Tensor& targets) = 0;
  // Adds the number of rows whose largest logit, the first of equals, is the target's to `total` (f32)[1].
  virtual void CountCorrect(Context& ctx, const Tensor& logits, const Tensor& targets, const Tensor& total) = 0;
};

struct MixtureConfig;  // core/nn/mixture.h

class Layers {
 public:
  virtual ~Layers() = default;

  // ---- Into the residual stream and out of it ----
  virtual TokenEmbedding Embedding(int64_t vocab, int64_t hidden, DType dtype, Init init);
  virtual std::unique_ptr<Module> Positions(int64_t sequence, int64_t hidden, DType dtype, Init init);
  // To logits; `shared`: the table of a tied head, or null.
  virtual std::unique_ptr<Module> Head(const LinearConfig& config, Parameter* shared);
  virtual std::unique_ptr<Loss> MakeLoss(int64_t classes);

  // ---- On the residual stream ----
  virtual std::unique_ptr<Module> MakeNorm(Norm norm, int64_t hidden, DType dtype, double eps);
  virtual std::unique_ptr<Module> MakeDropout(double p, DropoutMasks masks);

  // ---- Within a branch of a block ----
  // Products in pairs: out of a Column come features that a Row takes in; between them everything is done feature by feature or
  // head by head. `parts`: widths of what a Column's output consists of (gates and values), each of which is split by itself.
  virtual std::unique_ptr<Module> Column(const LinearConfig& config, std::vector<int64_t> parts);
  virtual std::unique_ptr<Module> Row(const LinearConfig& config);
  // A feed-forward part that is a mixture of experts.
  virtual std::unique_ptr<Module> MakeExperts(const MixtureConfig& config);
  // A Column to queries, keys and values.
  virtual std::unique_ptr<Module> Qkv(const LinearConfig& config, const Heads& heads);
  virtual std::unique_ptr<Module> MakeRotary(std::shared_ptr<RotaryTable> table, const Heads& heads);
  virtual std::unique_ptr<Module> AttentionCore(const Heads& heads);
  virtual std::unique_ptr<Module> UnfusedAttentionCore(const Heads& heads, double dropout, DropoutMasks masks);
};

// On one rank. Has no state: one serves all.
Layers& OneRank();

}  // namespace twofold::nn
