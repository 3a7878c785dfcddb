// What a stage of a layout holds at least: its parameters, gradients and optimizer state (memory/model_states.h) and,
// where most micro-batches are on their way, what each of them keeps for backward.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/proto/framework.pb.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/memory/model_states.h"
#include "experiments/program/plan/stage_pieces.h"
#include "strategies/models/model.h"
#include "strategies/pipeline/schedule.h"

namespace twofold::plan {

class LeastMemory {
 public:
  // `framework`: other than this program; else empty. It must outlive this.
  explicit LeastMemory(const framework::Framework& framework) : framework_(framework) {}

  // Bytes of the fullest stage. `what`: most of them.
  int64_t BytesOf(const spec::Spec& spec, const Pieces& pieces, const std::vector<nn::ModelPart>& parts,
                  std::string& what);

 private:
  const std::vector<StateFormula>& StatesOf(const spec::Spec& spec);
  int64_t MostInFlight(pipeline::Schedule schedule, const pipeline::PipelineShape& shape, int stage);

  const framework::Framework& framework_;
  absl::flat_hash_map<std::string, std::vector<StateFormula>> states_;
  absl::flat_hash_map<std::vector<int>, int64_t> in_flight_;
};

}  // namespace twofold::plan
