#include "experiments/program/plan/least_memory.h"

#include <algorithm>
#include <utility>

#include "core/base/strings.h"
#include "experiments/program/plan/layout_traits.h"
#include "strategies/from_spec.h"
#include "strategies/pipeline/stages.h"

namespace twofold::plan {
namespace {

using spec::Parallel;

// What a framework does not hold although this program does (framework.proto: Held with negative bytes).
double SpareBytes(const framework::Framework& f, double parameters, int64_t sharers) {
  double spare = 0;
  for (const framework::Held& held : f.memory().held()) {
    spare -= std::min(0.0, held.bytes_per_parameter()) * parameters;
    spare -= std::min(0.0, held.bytes_per_shard_parameter()) * parameters / static_cast<double>(sharers);
  }
  return spare;
}

}  // namespace

const std::vector<StateFormula>& LeastMemory::StatesOf(const spec::Spec& spec) {
  const spec::Train& train = spec.train();
  std::string key = StrCat(spec.parallel().sharding(), " ", spec.parallel().shard_group(), " ", spec.parallel().dp(),
                           " ", spec.parallel().cp(), " ", spec.parallel().islands(), " ",
                           spec.parallel().zero_plus_plus().secondary_shard());
  key += train.precision().SerializeAsString() + train.optimizer().SerializeAsString();
  std::vector<StateFormula>& states = states_[key];
  if (states.empty()) states = ModelStateFormulas(spec);
  return states;
}

int64_t LeastMemory::MostInFlight(pipeline::Schedule schedule, const pipeline::PipelineShape& shape, int stage) {
  int64_t& most = in_flight_[{static_cast<int>(schedule), shape.stages, shape.micro_batches, shape.chunks, stage}];
  if (most == 0) most = pipeline::MostInFlight(ActionsOf(schedule, shape, stage));
  return most;
}

int64_t LeastMemory::BytesOf(const spec::Spec& spec, const Pieces& pieces, const std::vector<nn::ModelPart>& parts,
                             std::string& what) {
  const Parallel& p = spec.parallel();
  const pipeline::PipelineShape shape = ShapeOf(spec);
  const bool tied = ModelOf(spec.model())->shape().tied;
  int64_t largest = 0;
  for (int stage = 0; stage < shape.stages; ++stage) {
    int64_t parameters = 0, kept = -1;
    for (const nn::ModelPart& part : PartsOfStage(parts, stage, shape.stages)) {
      int64_t n = (part.last_block - part.first_block) / pieces.blocks, own = 0;
      const auto take = [&](const Piece& piece, int64_t times) {
        parameters += times * piece.parameters, own += times * pieces.kept_more, n -= times;
      };
      if (part.embedding && n > 0) take(pieces.first, 1);
      // A head that is tied to the embedding holds no table of its own beside it.
      if (part.head && n > 0 && !(part.embedding && tied)) take(pieces.last, 1);
      take(pieces.middle, n);
      if (part.head) own += pieces.kept_by_head;
      kept = kept < 0 ? own : std::min(kept, own);
    }
    int64_t bytes = MostInFlight(ScheduleOf(p), shape, stage) * kept, most = bytes;
    std::string name = "activations";
    for (const StateFormula& state : StatesOf(spec)) {
      const bool on_host = p.offload() == Parallel::OFFLOAD_ALL ||
                           (p.offload() == Parallel::OFFLOAD_OPTIMIZER && state.category == Category::kOptimizerState);
      if (on_host) continue;
      const auto own = static_cast<int64_t>(state.bytes(parameters));
      bytes += own;
      if (own > most) most = own, name = std::string(CategoryName(state.category));
    }
    bytes -= static_cast<int64_t>(SpareBytes(framework_, static_cast<double>(parameters), StatesOf(spec).back().ranks));
    if (bytes > largest) largest = bytes, what = std::move(name);
  }
  return largest;
}

}  // namespace twofold::plan
