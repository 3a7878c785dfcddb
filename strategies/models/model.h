// A kind of model with its sizes. Everything that depends on the kind is a function of this class, so that nothing else
// names kinds. A new kind is a file of this folder and a row of kinds.cc (and, for the spec fields that it accepts, a
// file and a row in experiments/program/spec/models/).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/device/ops/op.h"
#include "core/nn/flops.h"
#include "core/nn/layers.h"
#include "core/nn/model_part.h"
#include "core/nn/recompute.h"

namespace twofold {

// A model's input and output: the shape of one sample and the width of the logits.
struct ModelInput {
  enum Kind { kTokens, kFeatures, kImages } kind;
  int64_t length;                               // tokens of a sequence, features of a row, or elements of an image
  int64_t classes;                              // width of the logits: vocabulary or classes
  int64_t height = 0, width = 0, channels = 0;  // of an image
};

// Element types of parameters and activations, of buffers (a batch norm's running statistics; F32 or F64), and of the
// logits that the loss reads: as parameter, or F32.
struct ModelTypes {
  ModelTypes(DType p) : ModelTypes(p, ops::AccumulationType(p)) {}
  ModelTypes(DType p, DType b) : ModelTypes(p, b, p) {}
  ModelTypes(DType p, DType b, DType l) : parameter(p), buffer(b), loss(l) {}
  DType parameter, buffer, loss;
};

// The sizes by which a model is split over ranks. 0: the model has no such size.
struct ModelShape {
  int64_t layers = 0;  // blocks: transformer blocks, an MLP's hidden layers or a CNN's residual blocks
  int64_t hidden = 0, heads = 0, kv_heads = 0, ffn = 0, sequence = 0;
  int64_t experts = 0;  // of a block that has experts
  bool tied = false;    // the head uses the embedding's table
};

// How the ranks of a pipeline stage share a micro-batch.
struct BoundaryShare {
  int64_t samples = 1;     // of the micro-batch
  int64_t cp = 1, tp = 1;  // ranks along these axes
  bool sequence_parallel = false;
};
// What a rank passes on between two blocks for a micro-batch, and gets back as its gradient.
struct Boundary {
  Shape shape;
  bool equal = true;  // on all ranks along tp; false: each has another part
};

// Immutable, so threads may share it. Only Make, BoundaryBefore and the counts of FLOPs need valid sizes.
class Model {
 public:
  virtual ~Model() = default;

  virtual std::string_view name() const = 0;   // of the kind, as in ModelKind
  virtual std::string_view block() const = 0;  // the kind() of its blocks; "" if they are not modules of their own
  virtual std::string_view unit() const = 0;   // the kind() of the modules that are units of sharded layouts by default

  virtual ModelInput input() const = 0;
  virtual ModelShape shape() const = 0;
  // Between block `next` - 1 and block `next`; 1 <= next < layers.
  virtual Boundary BoundaryBefore(int64_t next, const BoundaryShare& share) const = 0;

  // Returns a module without names and storage, whose output is logits [.., classes] if `part` has the head.
  virtual std::unique_ptr<nn::Module> Make(ModelTypes types, const nn::ModelPart& part, nn::Layers& layers) const = 0;

  // It has batch norms whose statistics are over the micro-batches of all replicas.
  virtual bool synchronizes_statistics() const { return false; }

  // FLOPs of forward over one sample, counted as in core/nn/flops.h.
  virtual nn::BlockFlops FlopsByBlock() const = 0;
  // FLOPs of forward and backward over `samples`. (A CNN's first convolution has an image as input, which needs no
  // gradient; that gradient is counted nevertheless, as is usual.)
  double TrainingFlops(int64_t samples) const;
  // Those that devices execute for them, including recomputation. By default, as of a model whose products all have two
  // gradients (what is before the blocks: one, since its input needs none) and whose blocks, if it has any, are
  // recomputed whole.
  virtual double HardwareFlops(const nn::Recomputation& recomputation, int64_t samples) const;
};

// The whole model, named (finalized) and without storage.
std::unique_ptr<nn::Module> MakeModel(const Model& model, ModelTypes types, nn::Layers& layers = nn::OneRank());
// The parts that one pipeline stage holds, named as in the whole model, with wrappers around what backward recomputes
// (recompute.h).
std::vector<std::unique_ptr<nn::Module>> MakeStage(const Model& model, ModelTypes types,
                                                   std::span<const nn::ModelPart> parts, nn::Layers& layers,
                                                   const nn::Recomputation& recomputation = {});
// The loss of its logits: split over ranks if they are, as those of a vocabulary.
std::unique_ptr<nn::Loss> MakeLoss(const Model& model, ModelTypes types, nn::Layers& layers);
int64_t ParameterCount(const Model& model);     // of the whole model, not of a rank's part; makes a model to count
int64_t ItemsPerSample(const Model& model);     // what tokens_per_second counts: tokens of a sequence, else 1
std::string_view ItemName(const Model& model);  // "tokens" or "samples"

}  // namespace twofold
