#include "experiments/program/memory/model_states.h"

#include "absl/strings/ascii.h"
#include "backends/replay/replay.h"
#include "core/base/strings.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

spec::DType GradientType(const spec::Precision& p) { return p.has_gradient() ? p.gradient() : p.reduce(); }

// The optimizer state per element, as "exp_avg F32", and its bytes.
StateFormula OptimizerState(spec::Spec spec) {
  spec.mutable_parallel()->set_offload(spec::Parallel::NO_OFFLOAD);
  spec.mutable_train()->clear_epochs();  // as one step needs it
  const spec::Precision& precision = spec.train().precision();
  StateFormula state{.category = Category::kOptimizerState, .what = ""};
  Replay({}, [&](RankContext& ctx) {
    nn::Context nn{.device = ctx.device(), .stream = ctx.device().compute()};
    const auto optimizer = TrainingOptionsOf(spec).make_optimizer();
    const auto one = [&](spec::DType type) {
      return ctx.device().NewTensor(Shape{1}, ToDType(type), Category::kOther);
    };
    const nn::Parameter parameter("one", Shape{1}, ToDType(precision.parameter()), {});
    const optim::Slice slice{.name = "one",
                             .data = one(precision.parameter()),
                             .gradient = one(GradientType(precision)),
                             .parts = {{.parameter = &parameter, .count = 1}}};
    optimizer->Attach(nn, {&slice, 1});
    for (const optim::State& s : optimizer->StateOf(0)) {
      state.bytes_per_parameter += ElementSize(s.tensor.dtype());
      StrAppend(&state.what, state.what.empty() ? "" : ", ", s.name, " ",
                absl::AsciiStrToUpper(std::string(DTypeName(s.tensor.dtype()))));
    }
    return std::string();
  });
  state.what = state.what.empty() ? "optimizer state, none" : StrCat("optimizer state, ", state.what);
  return state;
}

// What an outer step keeps (strategies/local_update/local_update.h). It is in the optimizer state's category.
void AddOuterState(const spec::Spec& spec, StateFormula& state) {
  if (!spec.train().local_update().has_diloco()) return;
  const spec::DType values = spec.train().precision().parameter() == spec::F64 ? spec::F64 : spec::F32;
  const auto add = [&](const char* what) {
    StrAppend(&state.what, ", outer ", what, " ", spec::DType_Name(values));
    state.bytes_per_parameter += ElementSize(ToDType(values));
  };
  add("parameter");
  if (spec.train().local_update().diloco().outer_momentum() > 0) add("momentum");
}

}  // namespace

double StateFormula::bytes(int64_t psi) const {
  const double whole = static_cast<double>(bytes_per_parameter) * static_cast<double>(psi);
  return whole / static_cast<double>(ranks) +
         (second_copy_ranks == 0 ? 0 : whole / static_cast<double>(second_copy_ranks));
}

std::string StateFormula::ToString() const {
  std::string text = StrCat(bytes_per_parameter, " psi", ranks == 1 ? "" : StrCat(" / ", ranks));
  if (second_copy_ranks > 0) StrAppend(&text, " + ", bytes_per_parameter, " psi / ", second_copy_ranks);
  return text;
}

std::vector<StateFormula> ModelStateFormulas(const spec::Spec& spec) {
  using Parallel = spec::Parallel;
  const spec::Precision& precision = spec.train().precision();
  const Parallel& parallel = spec.parallel();
  const Parallel::Sharding sharding = parallel.sharding();
  const int64_t ranks =
      sharding == Parallel::HYBRID_SHARD ? parallel.shard_group() : parallel.dp() / parallel.islands() * parallel.cp();
  const auto shared = [&](bool is) { return is ? ranks : 1; };
  const auto type = [](spec::DType dtype) { return ElementSize(ToDType(dtype)); };
  StateFormula optimizer = OptimizerState(spec);
  optimizer.ranks = shared(sharding != Parallel::NO_SHARD);
  AddOuterState(spec, optimizer);
  return {{.category = Category::kParameters,
           .what = StrCat("parameters, ", spec::DType_Name(precision.parameter())),
           .bytes_per_parameter = type(precision.parameter()),
           .ranks = shared(sharding == Parallel::FULL_SHARD || sharding == Parallel::HYBRID_SHARD),
           .second_copy_ranks = parallel.zero_plus_plus().secondary_shard()},
          {.category = Category::kGradients,
           .what = StrCat("gradients, ", spec::DType_Name(GradientType(precision))),
           .bytes_per_parameter = type(GradientType(precision)),
           .ranks = shared(sharding != Parallel::NO_SHARD && sharding != Parallel::SHARD_OPTIMIZER)},
          optimizer};
}

}  // namespace twofold
