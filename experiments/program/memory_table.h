// A prediction of memory as text and as JSON.
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

// All that is printed about one spec.
struct MemoryStory {
  spec::Spec spec;
  MemoryPrediction prediction;  // bounded
  MemoryPrediction needed;      // not bounded; equal to `prediction` if it fits
  MemoryVerdict verdict;
  std::vector<StateFormula> states;
  std::vector<LayerActivations> layers;               // of one micro-batch
  std::string framework;                              // "": this program
  std::vector<report::FrameworkMemory> of_framework;  // of each of needed.kinds; empty: this program
};

std::string MemoryText(const MemoryStory& story);
// Bytes as whole numbers, with the names of the text. "fits" is null if unknown, "device_bytes" is 0 without a limit.
nlohmann::ordered_json MemoryJson(const MemoryStory& story);
// As in the report of `twofold run`; times are absent.
report::Report MemoryReport(const MemoryStory& story);

}  // namespace twofold
