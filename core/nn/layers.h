// A factory for the layers of a model. Models (gpt.h, llama.h, mlp_model.h) say which layers there are; a Layers object
// decides how each is implemented. This base class makes every layer for one rank. A strategy that splits layers over
// ranks overrides the functions for those, and the model's code does not change. Size arguments are always those of the
// whole model.
#pragma once

#include <memory>
#include <vector>

#include "core/nn/dropout.h"
#include "core/nn/linear.h"
#include "core/nn/rotary.h"

namespace twofold::nn {

enum class Norm { kLayerNorm, kLayerNorm1p, kRmsNorm };  // 1p: Gain::kMinusOne (layer_norm.h)

// The heads of an attention layer.
struct Heads {
  int64_t queries = 1, keys = 1;  // keys: number of key heads and of value heads; must divide queries
  int64_t width = 0;
  int64_t all() const { return queries + 2 * keys; }
};

// An embedding table and the module that looks up its rows.
struct TokenEmbedding {
  std::unique_ptr<Module> module;
  Parameter* weight;
};

// The loss, which ends the forward pass. It is not a module, because it has two inputs. Shapes as in loss.h.
class Loss {
 public:
  virtual ~Loss() = default;
  // The mean of the rows' losses, one element.
  virtual Tensor Forward(Context& ctx, const Tensor& logits, const Tensor& targets, Saved& saved) = 0;
  // The gradient of scale * loss; it may overwrite the logits.
  virtual Tensor Backward(Context& ctx, Saved& saved, double scale) = 0;
  // The loss of each row; saves nothing.
  virtual Tensor Losses(Context& ctx, const Tensor& logits, const Tensor& targets) = 0;
  // Adds to `total` (f32)[1] the number of rows whose target has the largest logit; among equal logits the first
  // counts.
  virtual void CountCorrect(Context& ctx, const Tensor& logits, const Tensor& targets, const Tensor& total) = 0;
};

struct MixtureConfig;  // core/nn/mixture.h

class Layers {
 public:
  virtual ~Layers() = default;

  // ---- Entering and leaving the residual stream ----
  virtual TokenEmbedding Embedding(int64_t vocab, int64_t hidden, DType dtype, Init init);
  virtual std::unique_ptr<Module> Positions(int64_t sequence, int64_t hidden, DType dtype, Init init);
  // The projection to logits. `shared`: the table of a tied head, or null.
  virtual std::unique_ptr<Module> Head(const LinearConfig& config, Parameter* shared);
  // The ranks that hold the same embedding table, if the head is tied and in another part of the model.
  virtual GroupTag table_holders() const { return {}; }
  virtual std::unique_ptr<Loss> MakeLoss(int64_t classes);

  // ---- On the residual stream ----
  virtual std::unique_ptr<Module> MakeNorm(Norm norm, int64_t hidden, DType dtype, double eps);
  virtual std::unique_ptr<Module> MakeDropout(double p, DropoutMasks masks);
  // A linear layer that is not split: every rank that has its input computes all of it.
  virtual std::unique_ptr<Module> Whole(const LinearConfig& config);

  // ---- Within a branch of a block ----
  // Column- and row-parallel products come in pairs: a Column produces features that a Row consumes, and everything
  // between them works feature by feature or head by head. `parts`: widths of the parts of a Column's output (such as
  // gates and values), each of which is split separately.
  virtual std::unique_ptr<Module> Column(const LinearConfig& config, std::vector<int64_t> parts);
  virtual std::unique_ptr<Module> Row(const LinearConfig& config);
  // Dropout on the features of a Column with one part.
  virtual std::unique_ptr<Module> MakeFeatureDropout(double p, DropoutMasks masks);
  // A feed-forward part that is a mixture of experts.
  virtual std::unique_ptr<Module> MakeExperts(const MixtureConfig& config);
  // A Column that produces queries, keys and values.
  virtual std::unique_ptr<Module> Qkv(const LinearConfig& config, const Heads& heads);
  virtual std::unique_ptr<Module> MakeRotary(std::shared_ptr<RotaryTable> table, const Heads& heads);
  virtual std::unique_ptr<Module> AttentionCore(const Heads& heads);
  virtual std::unique_ptr<Module> UnfusedAttentionCore(const Heads& heads, double dropout, DropoutMasks masks);
};

// The factory for one rank. It has no state, so all callers share one object.
Layers& OneRank();

}  // namespace twofold::nn
