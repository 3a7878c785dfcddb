// The kinds of model that a spec can name. A new kind needs a file in this folder and a row in kinds.cc (and, for the
// spec fields that it accepts, a file and a row in experiments/program/spec/models/).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/types/span.h"
#include "core/nn/dropout.h"
#include "core/nn/flops.h"
#include "core/nn/layers.h"
#include "core/nn/model_part.h"
#include "core/nn/recompute.h"
#include "core/proto/spec.pb.h"
#include "core/tensor/tensor.h"

namespace twofold {

// A model's input and output: the shape of one sample and the width of the logits.
struct ModelInput {
  enum Kind { kTokens, kFeatures, kImages } kind;
  int64_t length;                               // tokens of a sequence, features of a row, or elements of an image
  int64_t classes;                              // width of the logits: vocabulary or classes
  int64_t height = 0, width = 0, channels = 0;  // of an image
};

// Element types of parameters and activations, and of buffers (a batch norm's running statistics; F32 or F64).
struct ModelTypes {
  ModelTypes(DType p) : parameter(p), buffer(ops::AccumulationType(p)) {}
  ModelTypes(DType p, DType b) : parameter(p), buffer(b) {}
  DType parameter, buffer;
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
// Of blocks whose input and output are hidden states [samples, tokens, hidden]: 1 / cp of the sequence's tokens, and
// 1 / tp of these under sequence parallelism.
inline Boundary HiddenStates(int64_t sequence, int64_t hidden, const BoundaryShare& share) {
  return {.shape = {share.samples, sequence / share.cp / (share.sequence_parallel ? share.tp : 1), hidden},
          .equal = !share.sequence_parallel};
}

// The functions take a model of this kind with its sizes filled in.
struct ModelKind {
  std::string_view name;  // its field in spec.Model
  spec::Model::KindCase kind;
  ModelInput (*input)(const spec::Model& model);
  // Returns a module without names and storage.
  std::unique_ptr<nn::Module> (*make)(const spec::Model& model, ModelTypes types, const nn::ModelPart& part,
                                      nn::Layers& layers);
  // FLOPs, counted as in core/nn/flops.h.
  double (*training_flops)(const spec::Model& model, int64_t samples);
  double (*hardware_flops)(const spec::Model& model, const nn::Recomputation& recomputation, int64_t samples);
  nn::BlockFlops (*flops_by_block)(const spec::Model& model);
  std::string_view block;  // the kind() of its blocks; "" if they are not modules of their own
  std::string_view unit;   // the kind() of the modules that are units of sharded layouts by default
  int64_t (*blocks)(const spec::Model& model);  // number of blocks
  // Between block `next` - 1 and block `next`; 1 <= next < blocks.
  Boundary (*boundary)(const spec::Model& model, int64_t next, const BoundaryShare& share);
};

inline nn::DropoutMasks MasksOf(const spec::Model& model) {
  return model.dropout_masks() == spec::Model::STORED ? nn::DropoutMasks::kStored : nn::DropoutMasks::kRecomputed;
}

absl::Span<const ModelKind* const> ModelKinds();
const ModelKind* FindModelKind(spec::Model::KindCase kind);  // null if `kind` names no model
const ModelKind& KindOf(const spec::Model& model);           // of a resolved spec

// ---- The rows ----
extern const ModelKind kCnnModel, kGptModel, kLlamaModel, kMlpModel, kMoeModel;

}  // namespace twofold
