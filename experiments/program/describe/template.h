// A first spec to edit, with comments.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/describe/fields.h"

namespace twofold {

struct TemplateChoice {
  std::string model;               // a preset
  std::string cluster, framework;  // of a prediction; empty: training here, on fabric in_memory
  int64_t ranks = 2;               // of data parallelism
  bool tokens = true;              // the model reads tokens
  bool gpus = false;               // of the cluster
};

// A text proto whose comments are the meanings of `fields`. Fields that many specs state stand in it with a value, and
// others as comments with theirs, to be uncommented.
std::string SpecTemplate(const std::vector<SpecField>& fields, const TemplateChoice& choice);

}  // namespace twofold
