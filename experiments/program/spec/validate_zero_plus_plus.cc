// Checks parallel.zero_plus_plus: whether the layout gathers shards, and whether every option has something to do.
#include <string>

#include "core/base/strings.h"
#include "experiments/program/spec/validate.h"

namespace twofold {
namespace {

using spec::Parallel;

constexpr std::string_view kZeroPlusPlus = "parallel.zero_plus_plus";

void CheckSecondaryShard(const Parallel& p, int64_t ranks, Problems& problems) {
  const std::string path = StrCat(kZeroPlusPlus, ".secondary_shard");
  const int64_t near = p.zero_plus_plus().secondary_shard();
  if (near == 0 || !problems.Whole(path, near, 2, ranks)) return;
  if (near == ranks) {
    problems.Add(path, near, " is the number of all ranks that share the parameters, which gather from each other ",
                 "anyway; use a divisor of it, such as the ranks of a node");
  } else if (ranks % near != 0) {
    problems.Add(path, near, " does not divide the ", ranks, " ranks that share the parameters; use a divisor of it");
  }
  if (!p.reshard_after_forward()) {
    problems.Add(path, near, " would not be gathered from: parallel.reshard_after_forward = false keeps the whole ",
                 "parameters until backward; leave one of them out");
  }
  if (p.offload() == Parallel::OFFLOAD_ALL) {
    problems.Add(path, near, " keeps a second copy of parameters on the device, from which parallel.offload = ",
                 "OFFLOAD_ALL moves them to the host; leave one of them out");
  }
}

void CheckQuantizedGradients(const spec::Spec& spec, Problems& problems) {
  const Parallel& p = spec.parallel();
  const spec::Precision& precision = spec.train().precision();
  if (!p.zero_plus_plus().quantized_gradients()) return;
  const std::string path = StrCat(kZeroPlusPlus, ".quantized_gradients");
  if (p.has_compression())
    problems.Add(path, "true encodes gradients, as parallel.compression does; leave one of them out");
  if (precision.has_reduce() && precision.reduce() != precision.gradient() && precision.reduce() != spec::F32) {
    problems.Add("train.precision.reduce", spec::DType_Name(precision.reduce()), " has no effect with ", path,
                 ", which sends codes of 4 bits; leave it out");
  }
}

}  // namespace

void CheckZeroPlusPlus(const spec::Spec& spec, Problems& problems) {
  const Parallel& p = spec.parallel();
  if (!p.has_zero_plus_plus()) return;
  const spec::ZeroPlusPlus& zero = p.zero_plus_plus();
  const std::string path(kZeroPlusPlus);
  if (!zero.quantized_weights() && !zero.quantized_gradients() && zero.secondary_shard() == 0) {
    return problems.Add(path, "asks for nothing; set quantized_weights, secondary_shard or quantized_gradients, or ",
                        "leave it out");
  }
  if (p.sharding() != Parallel::FULL_SHARD) {
    return problems.Add("parallel.sharding", Parallel::Sharding_Name(p.sharding()), " is not possible with ", path,
                        p.sharding() == Parallel::HYBRID_SHARD ? ": its shards are gathered within a group already"
                                                               : ", which gathers shards of parameters",
                        "; use FULL_SHARD, or leave ", path, " out");
  }
  if (p.ep() > 1) {
    problems.Add("parallel.ep", p.ep(), " is not possible with ", path,
                 ": experts are sharded over ranks that are not near each other; use ep: 1");
  }
  const int64_t islands = std::max<int64_t>(1, p.islands()), ranks = p.dp() / islands * p.cp();
  if (ranks == 1) {
    return problems.Add(path, "has no effect: no parameters are sharded, because parallel.dp",
                        islands > 1 ? " / islands" : "", " = 1; use a dp of 2 or more, or leave it out");
  }
  CheckSecondaryShard(p, ranks, problems);
  CheckQuantizedGradients(spec, problems);
}

}  // namespace twofold
