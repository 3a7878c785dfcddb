// What a spec may say of each kind of model. A new kind is a file of this folder and a row of rules.cc.
#pragma once

#include <string>

#include "core/proto/spec.pb.h"
#include "experiments/program/spec/problems/problems.h"

namespace twofold {

struct ModelRules {
  spec::Model::KindCase kind;
  void (*fill)(spec::Model& model);  // the defaults that depend on other fields; constant ones stand in spec.proto
  void (*check)(const spec::Model& model, Problems& problems);  // of a model with its defaults
};

const ModelRules* FindModelRules(spec::Model::KindCase kind);  // null: no kind is named

// ---- The rows ----
extern const ModelRules kCnnRules, kGptRules, kLlamaRules, kMlpRules, kMoeRules;

// Where the sizes of a model of this kind stand: "model.gpt", "model.moe.llama".
std::string SizesPath(spec::Model::KindCase kind);

// ---- What several of them need ----
// A Llama whose fields are below `path` ("model.llama").
void FillLlama(spec::Llama& llama);
void CheckLlama(const spec::Llama& llama, const std::string& path, Problems& problems);
// Adds a problem to `path` unless `value` divides `whole`, which stands in `whole_path`.
void CheckDivides(std::string_view path, int64_t value, std::string_view whole_path, int64_t whole, Problems& problems);

}  // namespace twofold
