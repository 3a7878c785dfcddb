// The rules for each kind of model in a spec. A new kind is a new file of this folder and a row of rules.cc.
#pragma once

#include <string>
#include <string_view>

#include "core/proto/spec.pb.h"
#include "experiments/program/spec/problems/problems.h"

namespace twofold {

struct ModelRules {
  spec::Model::KindCase kind;
  std::string_view path;             // of the sizes that say how the model is split: "model.gpt", "model.moe.llama"
  void (*fill)(spec::Model& model);  // defaults that depend on other fields; constant ones are in spec.proto
  void (*check)(const spec::Model& model, Problems& problems);  // called with the defaults filled in
  // These two are null for a transformer. How messages give the number of blocks: "model.mlp.hidden = [64, 32]".
  std::string (*blocks)(const spec::Model& model) = nullptr;
  // Whether parallel.tp, 2 or more, can split the layers.
  void (*check_tensor)(const spec::Model& model, int64_t tp, Problems& problems) = nullptr;
};

const ModelRules* FindModelRules(spec::Model::KindCase kind);  // null if no kind is named

// ---- The rows ----
extern const ModelRules kCnnRules, kGptRules, kLlamaRules, kMlpRules, kMoeRules;

// ---- Helpers that several rows share ----
// A Llama whose fields are below `path` ("model.llama").
void FillLlama(spec::Llama& llama);
void CheckLlama(const spec::Llama& llama, const std::string& path, Problems& problems);
// Adds a problem to `path` unless `value` divides `whole`, the value of `whole_path`.
void CheckDivides(std::string_view path, int64_t value, std::string_view whole_path, int64_t whole, Problems& problems);

}  // namespace twofold
