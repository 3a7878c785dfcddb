// Checks parallel.compression and train.optimizer.one_bit_adam: their numbers, and what they can be combined with.
#include <algorithm>
#include <string>

#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/spec/validate.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

using spec::Compression;

constexpr std::string_view kPath = "parallel.compression";

void CheckDensity(const std::string& path, double density, Problems& problems) {
  if (density > 0 && density <= 1) return;
  problems.Add(path + ".density", NumberText(density),
               " is not a share of the elements; use a number above 0, at most 1");
}

void CheckTopK(const spec::Spec& spec, const std::string& path, Problems& problems) {
  const spec::TopK& top_k = spec.parallel().compression().top_k();
  CheckDensity(path, top_k.density(), problems);
  problems.Whole(path + ".warmup_steps", top_k.warmup_steps(), 0, int64_t{1} << 40);
  if (top_k.clip_norm() < 0)
    problems.Add(path + ".clip_norm", NumberText(top_k.clip_norm()),
                 " is negative; use 0 for no clipping, or a norm above 0");
  const bool scaled = spec.train().precision().has_loss_scale();
  if (top_k.clip_norm() > 0 && scaled) {
    problems.Add(path + ".clip_norm", NumberText(top_k.clip_norm()),
                 " is compared with gradients that contain train.precision.loss_scale; leave one of them out");
  }
  if (!top_k.momentum_correction()) return;
  const std::string field = path + ".momentum_correction";
  const spec::Optimizer& optimizer = spec.train().optimizer();
  if (!optimizer.has_sgd() || optimizer.sgd().momentum() == 0) {
    problems.Add(field,
                 "true moves the momentum of train.optimizer { sgd { momentum: ... } } before the mean, but the ",
                 "optimizer is ",
                 optimizer.has_sgd()            ? "sgd without momentum"
                 : optimizer.has_adam()         ? "adam"
                 : optimizer.has_one_bit_adam() ? "one_bit_adam"
                                                : "adamw",
                 "; use sgd with a momentum, or leave it out");
  } else if (optimizer.sgd().nesterov()) {
    problems.Add(field, "true is not defined for sgd with nesterov: true; use nesterov: false, or leave it out");
  }
  if (!spec.parallel().compression().error_feedback())
    problems.Add(field, "true needs ", kPath,
                 ".error_feedback: momentum is added up in the residual; leave one of them out");
  if (scaled)
    problems.Add(field, "true adds up gradients of several steps, whose train.precision.loss_scale may differ; ",
                 "leave one of them out");
  const spec::Train& train = spec.train();
  if (spec.parallel().reduce_every_micro_batch() && train.global_batch() > spec.parallel().dp() * train.micro_batch()) {
    problems.Add(field, "true applies momentum once for each reduction, and parallel.reduce_every_micro_batch reduces ",
                 "several times a step; set that to false, or leave it out");
  }
}

void CheckPowerSgd(const spec::PowerSgd& power_sgd, const std::string& path, Problems& problems) {
  problems.Whole(path + ".rank", power_sgd.rank(), 1, 1 << 16);
  problems.Whole(path + ".start_step", power_sgd.start_step(), 0, int64_t{1} << 40);
  if (power_sgd.min_compression() < 0)
    problems.Add(path + ".min_compression", NumberText(power_sgd.min_compression()),
                 " is negative; use 0 to compress all matrices, or a ratio such as 2");
}

// What travels is encoded from F32 sums, so a narrower type on the wire would change nothing.
void CheckTypes(const spec::Precision& precision, Problems& problems) {
  if (!precision.has_reduce() || precision.reduce() == precision.gradient() || precision.reduce() == spec::F32) return;
  problems.Add("train.precision.reduce", spec::DType_Name(precision.reduce()), " has no effect with ", kPath,
               ", whose codecs encode F32; leave it out");
}

}  // namespace

void CheckQuantize(const spec::Quantize& quantize, const std::string& path, Problems& problems) {
  if (quantize.bits() != 4 && quantize.bits() != 8 && quantize.bits() != 32)
    problems.Add(path + ".bits", quantize.bits(), " is not supported; use 4, 8, or 32 for no rounding");
  if (quantize.block() != 256 && quantize.block() != 512 && quantize.block() != 1024)
    problems.Add(path + ".block", quantize.block(), " is not supported; use 256, 512 or 1024");
  if (quantize.bits() == 32 && quantize.stochastic())
    problems.Add(path + ".stochastic", "true has no effect: with bits: 32 nothing is rounded; leave it out");
}

// What is exchanged after freeze_step steps is the whole momentum of every rank, with what earlier signs left out.
void CheckOneBitAdam(const spec::Spec& spec, Problems& problems) {
  if (!spec.train().optimizer().has_one_bit_adam()) return;
  const std::string path = "train.optimizer.one_bit_adam";
  const spec::Train& train = spec.train();
  const spec::Parallel& p = spec.parallel();
  const spec::OneBitAdam& adam = train.optimizer().one_bit_adam();
  problems.Whole(path + ".freeze_step", adam.freeze_step(), 1, int64_t{1} << 40);
  if (adam.beta1() == 0)
    problems.Add(path + ".beta1", "0 leaves no momentum to exchange; use parallel.compression { one_bit {} } with sgd");
  if (p.sharding() != spec::Parallel::NO_SHARD) {
    problems.Add("parallel.sharding", spec::Parallel::Sharding_Name(p.sharding()), " divides the momentum, which ",
                 path, " needs whole on every rank; use NO_SHARD, or another optimizer with parallel.compression");
  }
  if (p.offload() != spec::Parallel::NO_OFFLOAD) {
    problems.Add("parallel.offload", spec::Parallel::Offload_Name(p.offload()), " keeps the momentum on the host, but ",
                 path, " exchanges it on the device; leave one of them out");
  }
  if (p.has_compression())
    problems.Add(std::string(kPath), "encodes gradients, and ", path, " encodes momenta; leave one of them out");
  if (p.dp() * p.cp() == std::max<int64_t>(1, p.islands())) {
    problems.Add(path, "has no effect: no gradients are sent, because parallel.dp", p.islands() > 1 ? " / islands" : "",
                 " = 1; use adamw");
  }
  if (train.clip_norm() > 0) {
    problems.Add("train.clip_norm", NumberText(train.clip_norm()), " would scale the momentum that ", path,
                 " has exchanged, so that error feedback no longer adds up; leave one of them out");
  }
  if (train.precision().loss_scale().has_dynamic()) {
    problems.Add("train.precision.loss_scale", "is dynamic, so that steps may be skipped, but ", path,
                 " counts steps; use loss_scale { fixed: ... }, or BF16");
  }
  if (train.precision().gradient() == spec::BF16 || train.precision().gradient() == spec::F16) {
    problems.Add("train.precision.gradient", spec::DType_Name(train.precision().gradient()),
                 " would round the momentum ", "that ", path, " has exchanged; use F32");
  }
  if (p.reduce_every_micro_batch() && train.global_batch() > p.dp() * train.micro_batch()) {
    problems.Add("parallel.reduce_every_micro_batch", "true would exchange the momentum several times a step with ",
                 path, "; use false");
  }
}

void CheckCompression(const spec::Spec& spec, Problems& problems) {
  if (!spec.parallel().has_compression()) return;
  const Compression& c = spec.parallel().compression();
  const auto* codec =
      c.GetReflection()->GetOneofFieldDescriptor(c, Compression::descriptor()->FindOneofByName("codec"));
  if (codec == nullptr) {
    return problems.Add(std::string(kPath),
                        "names no codec; use one of top_k {}, random_k {}, power_sgd {}, one_bit {} and ",
                        "quantize {}, or leave it out");
  }
  const std::string path = StrCat(kPath, ".", codec->name());
  const spec::Parallel& p = spec.parallel();
  if (p.dp() * p.cp() == std::max<int64_t>(1, p.islands())) {
    problems.Add(path, "has no effect: no gradients are sent, because parallel.dp",
                 p.islands() > 1 ? " / islands = 1; compress outer gradients by train.local_update { quantize {} }"
                                 : " = 1; use a dp of 2 or more",
                 ", or leave it out");
  }
  if (c.has_top_k()) CheckTopK(spec, path, problems);
  if (c.has_random_k()) CheckDensity(path, c.random_k().density(), problems);
  if (c.has_power_sgd()) CheckPowerSgd(c.power_sgd(), path, problems);
  if (c.has_quantize()) CheckQuantize(c.quantize(), path, problems);
  if (c.has_one_bit() && !c.error_feedback()) {
    problems.Add(
        StrCat(kPath, ".error_feedback"),
        "false does not converge with one_bit, which keeps only signs (Karimireddy et al. 2019); leave it out");
  }
  CheckTypes(spec.train().precision(), problems);
}

}  // namespace twofold
