// Checks whether element types and the loss scale fit together.
#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/validate.h"

namespace twofold {
namespace {

using spec::Precision;

constexpr char kPrecision[] = "train.precision.";

// A field with a type, and the fields that default to it: an error is reported once.
struct Field {
  std::string_view name;
  spec::DType type;
  bool is_copy;
};

bool CheckFloats(const Precision& p, Problems& problems) {
  const Field fields[] = {{"parameter", p.parameter(), false},
                          {"gradient", p.gradient(), p.gradient() == p.parameter() || p.gradient() == p.reduce()},
                          {"reduce", p.reduce(), p.reduce() == p.parameter()}};
  bool fine = true;
  for (const Field& field : fields) {
    if (field.type != spec::I32 && field.type != spec::U8) continue;
    fine = false;
    if (field.is_copy) continue;
    problems.Add(StrCat(kPrecision, field.name), spec::DType_Name(field.type),
                 " is not a floating-point type; use F32, F64, BF16 or F16");
  }
  if (p.loss() != p.parameter() && (p.loss() != spec::F32 || p.parameter() == spec::F64)) {
    fine = false;
    problems.Add("train.precision.loss", spec::DType_Name(p.loss()),
                 " is not possible with train.precision.parameter: ", spec::DType_Name(p.parameter()), "; use ",
                 spec::DType_Name(p.parameter()),
                 p.parameter() == spec::BF16 || p.parameter() == spec::F16 ? " or F32" : "");
  }
  if (p.buffer() != spec::F32 && p.buffer() != spec::F64) {
    fine = false;
    problems.Add("train.precision.buffer", spec::DType_Name(p.buffer()),
                 " is too coarse for running statistics, which change in small steps; use F32 or F64");
  }
  return fine;
}

bool Narrow(spec::DType t) { return t == spec::BF16 || t == spec::F16; }
// F64 is for finding exact results, so everything must be F64 then. BF16 and F16 have different ranges: a value that
// fits one may not fit the other.
bool Together(spec::DType a, spec::DType b) {
  return (a == spec::F64) == (b == spec::F64) && !(Narrow(a) && Narrow(b) && a != b);
}

void CheckTypesTogether(const Precision& p, Problems& problems) {
  const auto refuse = [&](std::string_view field, spec::DType type, std::string_view other_field, spec::DType other) {
    const bool wide = type == spec::F64 || other == spec::F64;
    problems.Add(StrCat(kPrecision, field), spec::DType_Name(type), p.gradient() == p.reduce() ? " (as gradient)" : "",
                 " cannot be combined with ", kPrecision, other_field, ": ", spec::DType_Name(other), "; use ",
                 wide ? "F64 for all or for none" : StrCat(spec::DType_Name(other), " or F32"));
  };
  if (p.gradient() != p.reduce() && !Together(p.gradient(), p.parameter())) {
    refuse("gradient", p.gradient(), "parameter", p.parameter());
  } else if (!Together(p.reduce(), p.parameter())) {
    refuse("reduce", p.reduce(), "parameter", p.parameter());
  } else if (!Together(p.reduce(), p.gradient())) {
    refuse("reduce", p.reduce(), "gradient", p.gradient());
  }
  if (p.parameter() == spec::F64 && p.buffer() != spec::F64) {
    problems.Add("train.precision.buffer", "F32 cannot be combined with train.precision.parameter: F64; use F64");
  }
}

void CheckDynamic(const spec::LossScale::Dynamic& d, Problems& problems) {
  constexpr std::string_view kDynamic = "train.precision.loss_scale.dynamic.";
  const auto path = [&](std::string_view field) { return StrCat(kDynamic, field); };
  const bool minimum = problems.Above(path("minimum"), d.minimum(), 0);
  if (problems.Above(path("initial"), d.initial(), 0) && minimum && d.initial() < d.minimum()) {
    problems.Add(path("initial"), NumberText(d.initial()), " is below minimum = ", NumberText(d.minimum()),
                 "; use at least that");
  }
  if (d.initial() > 1e30) problems.Add(path("initial"), NumberText(d.initial()), " is out of range; use at most 1e30");
  problems.Above(path("growth"), d.growth(), 1);
  if (problems.Above(path("backoff"), d.backoff(), 0) && d.backoff() >= 1) {
    problems.Add(path("backoff"), NumberText(d.backoff()),
                 " does not lower the scale; use a number below 1, such as 0.5");
  }
  problems.Whole(path("growth_interval"), d.growth_interval(), 1, int64_t{1} << 31);
}

void CheckLossScale(const Precision& p, Problems& problems) {
  if (!p.has_loss_scale()) return;
  const spec::LossScale& scale = p.loss_scale();
  const bool half = p.parameter() == spec::F16 || p.gradient() == spec::F16 || p.reduce() == spec::F16;
  const bool scales = !scale.has_fixed() || scale.fixed() != 1;
  if (!half && scales) {
    problems.Add("train.precision.loss_scale",
                 "scales gradients into the range of F16, but none of parameter, gradient and reduce is F16; leave it "
                 "out, or use fixed: 1");
    return;
  }
  if (scale.has_dynamic()) return CheckDynamic(scale.dynamic(), problems);
  if (problems.Above("train.precision.loss_scale.fixed", scale.fixed(), 0) && scale.fixed() > 1e30) {
    problems.Add("train.precision.loss_scale.fixed", NumberText(scale.fixed()), " is out of range; use at most 1e30");
  }
}

void CheckStochasticRounding(const Precision& p, Problems& problems) {
  if (!p.stochastic_rounding() || Narrow(p.parameter())) return;
  problems.Add("train.precision.stochastic_rounding",
               "is only for parameters with fewer bits than their updates, but train.precision.parameter is ",
               spec::DType_Name(p.parameter()), "; leave it out, or use parameter: BF16");
}

// Codes are those of the weights at the beginning of a step, of a tensor that is there all the time.
void CheckKeptWeights(const spec::Spec& spec, Problems& problems) {
  if (!spec.train().precision().fp8().keep_weights() || WeightsStay(spec)) return;
  constexpr std::string_view kField = "train.precision.fp8.keep_weights";
  const spec::Parallel& p = spec.parallel();
  if (p.sharding() == spec::Parallel::FULL_SHARD || p.sharding() == spec::Parallel::HYBRID_SHARD) {
    problems.Add(kField, "true needs weights that stay in memory, but parallel.sharding is ",
                 spec::Parallel::Sharding_Name(p.sharding()), ", which gathers them; use ZERO_2, or false");
  }
  const auto refuse = [&](bool is_set, std::string_view other) {
    if (!is_set) return;
    problems.Add(kField, "true needs weights that only the optimizer changes, but ", other,
                 " changes them, too; leave that out, or use false");
  };
  refuse(spec.train().has_local_update(), "train.local_update");
  refuse(spec.train().has_async_sgd(), "train.async_sgd");
  refuse(spec.train().has_elastic(), "train.elastic");
}

}  // namespace

bool WeightsStay(const spec::Spec& spec) {
  const spec::Parallel::Sharding sharding = spec.parallel().sharding();
  const spec::Train& train = spec.train();
  return sharding != spec::Parallel::FULL_SHARD && sharding != spec::Parallel::HYBRID_SHARD &&
         !train.has_local_update() && !train.has_async_sgd() && !train.has_elastic();
}

void CheckFp8(const spec::Spec& spec, Problems& problems) {
  constexpr std::string_view kMatMul = "train.precision.matmul";
  const Precision& p = spec.train().precision();
  if (p.matmul() != Precision::FP8) {
    if (p.has_fp8()) {
      problems.Add("train.precision.fp8", "is only for train.precision.matmul: FP8, but that is ",
                   Precision::MatMul_Name(p.matmul()), "; set that, or leave the block out");
    }
    return;
  }
  if (!spec.model().has_gpt() && !spec.model().has_llama()) {
    problems.Add(kMatMul,
                 "FP8 is for the linear layers of GPT's and Llama's blocks; use AS_PARAMETER, or one of these "
                 "models (without experts, whose products have no FP8)");
  }
  if (p.parameter() == spec::F64) {
    problems.Add(kMatMul,
                 "FP8 has sums in F32 and cannot be combined with train.precision.parameter: F64; use BF16, F16 "
                 "or F32, or matmul: AS_PARAMETER");
  }
  CheckKeptWeights(spec, problems);
}

void CheckPrecision(const Precision& precision, Problems& problems) {
  if (!CheckFloats(precision, problems)) return;
  CheckTypesTogether(precision, problems);
  CheckLossScale(precision, problems);
  CheckStochasticRounding(precision, problems);
}

}  // namespace twofold
