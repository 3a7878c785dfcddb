// The kinds of model that a spec can name. A new kind needs a file in this folder and a row in kinds.cc (and, for the
// spec fields that it accepts, a file and a row in experiments/program/spec/models/).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/types/span.h"
#include "core/nn/dropout.h"
#include "core/nn/language_model.h"
#include "core/nn/recompute.h"
#include "core/proto/spec.pb.h"

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

// The functions take a model of this kind with its sizes filled in.
struct ModelKind {
  std::string_view name;  // its field in spec.Model
  spec::Model::KindCase kind;
  ModelInput (*input)(const spec::Model& model);
  // Returns a module without names and storage. Kinds whose `splits` is false are made whole, on one rank.
  std::unique_ptr<nn::Module> (*make)(const spec::Model& model, ModelTypes types, const nn::ModelPart& part,
                                      nn::Layers& layers);
  bool splits;  // supports tensor and pipeline parallelism: `make` uses `part` and `layers`
  // FLOPs, counted as in core/nn/flops.h.
  double (*training_flops)(const spec::Model& model, int64_t samples);
  double (*hardware_flops)(const spec::Model& model, const nn::Recomputation& recomputation, int64_t samples);
  std::string_view block;  // the kind() of its blocks; "" if it has none
  std::string_view unit;   // the kind() of the modules that are units of sharded layouts by default
  int64_t (*blocks)(const spec::Model& model);  // number of blocks
};

inline nn::DropoutMasks MasksOf(const spec::Model& model) {
  return model.dropout_masks() == spec::Model::STORED ? nn::DropoutMasks::kStored : nn::DropoutMasks::kRecomputed;
}

absl::Span<const ModelKind* const> ModelKinds();
const ModelKind* FindModelKind(spec::Model::KindCase kind);  // null if `kind` names no model

// ---- The rows ----
extern const ModelKind kCnnModel, kGptModel, kLlamaModel, kMlpModel, kMoeModel;

}  // namespace twofold
