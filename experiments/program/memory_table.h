// A prediction of memory for people, and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/memory/activations.h"
#include "experiments/program/memory/model_states.h"
#include "experiments/program/memory/predict.h"
#include "experiments/program/memory_verdict.h"

namespace twofold {

// All that is told of one spec.
struct MemoryStory {
  spec::Spec spec;
  MemoryPrediction prediction;          // bounded
  MemoryPrediction needed;              // not bounded; the same one where it fits
  MemoryVerdict verdict;
  std::vector<StateFormula> states;
  std::vector<LayerActivations> layers;  // of one micro-batch
};

std::string MemoryText(const MemoryStory& story);
// Bytes as whole numbers, by the names of the text; "fits" is null where it is not known, "device_bytes" 0 where they are not bounded.
nlohmann::ordered_json MemoryJson(const MemoryStory& story);
// As `twofold run` reports it; times are absent.
report::Report MemoryReport(const MemoryStory& story);

}  // namespace twofold
