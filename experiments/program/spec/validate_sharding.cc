// Checks parallel.sharding and its options: whether the ranks divide evenly, the units exist, and every option has a
// layout that it affects. And the size of buckets, which all layouts have.
#include <set>
#include <vector>

#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/validate.h"
#include "strategies/data_parallel/wrapping.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

using spec::Parallel;

bool ShardsParameters(const Parallel& p) {
  return p.sharding() == Parallel::FULL_SHARD || p.sharding() == Parallel::HYBRID_SHARD;
}

std::string Names(const Parallel& p) { return Parallel::Sharding_Name(p.sharding()); }

void CheckBuckets(const Parallel& parallel, Problems& problems) {
  if (problems.Above("parallel.bucket_mib", parallel.bucket_mib(), 0) && parallel.bucket_mib() > 1 << 20) {
    problems.Add("parallel.bucket_mib", NumberText(parallel.bucket_mib()), " is out of range; use at most ", 1 << 20);
  }
}

void CheckShardGroup(const Parallel& p, Problems& problems) {
  if (p.sharding() != Parallel::HYBRID_SHARD) {
    if (p.has_shard_group()) {
      problems.Add("parallel.shard_group", p.shard_group(), " is only for HYBRID_SHARD, but parallel.sharding is ",
                   Names(p), "; leave it out, or use HYBRID_SHARD");
    }
    return;
  }
  const int64_t ranks = p.islands() > 0 ? p.dp() / p.islands() : p.dp();  // that share a batch
  const std::string path = p.islands() > 1 ? "parallel.dp / islands" : "parallel.dp";
  if (ranks < 2) {
    return problems.Add("parallel.sharding", "HYBRID_SHARD needs ranks to shard and to replicate over, but ", path,
                        " = ", ranks, "; use 2 or more");
  }
  if (!problems.Whole("parallel.shard_group", p.shard_group(), 2, ranks, p.has_shard_group())) return;
  constexpr int64_t kMost = 1 << 20;  // more ranks are refused elsewhere, and finding their divisors takes long
  if (ranks > kMost || ranks % p.shard_group() == 0) return;
  std::string right;
  for (int64_t n = 2; n <= ranks; ++n) {
    if (ranks % n == 0) StrAppend(&right, right.empty() ? "" : ", ", n);
  }
  problems.Add("parallel.shard_group", p.shard_group(), " does not divide ", path, " = ", ranks, "; use one of ",
               right);
}

// Refuses options that have no effect under this layout.
void CheckApplicable(const Parallel& p, Problems& problems) {
  const auto refuse = [&](std::string_view field, const std::string& value, std::string_view of) {
    problems.Add(StrCat("parallel.", field), value, " is only for ", of, ", but parallel.sharding is ", Names(p),
                 "; leave it out");
  };
  const Parallel& usual = Parallel::default_instance();
  if (!ShardsParameters(p)) {
    constexpr std::string_view kOf = "FULL_SHARD and HYBRID_SHARD, which gather parameters unit by unit";
    if (p.prefetch() != usual.prefetch()) refuse("prefetch", StrCat(p.prefetch()), kOf);
    if (p.prefetch_limit_mib() != 0) refuse("prefetch_limit_mib", NumberText(p.prefetch_limit_mib()), kOf);
    if (!p.reshard_after_forward()) refuse("reshard_after_forward", "false", kOf);
    if (p.backward_prefetch() != usual.backward_prefetch()) {
      refuse("backward_prefetch", Parallel::BackwardPrefetch_Name(p.backward_prefetch()), kOf);
    }
  }
  if (ShardsParameters(p)) {
    const bool ahead = p.overlap() && p.prefetch() > 0;
    const auto idle = [&](std::string_view field, const std::string& value) {
      problems.Add(StrCat("parallel.", field), value, " only matters if parameters are gathered ahead, which parallel.",
                   p.overlap() ? "prefetch = 0" : "overlap = false", " switches off; leave it out");
    };
    if (!p.overlap() && p.prefetch() != usual.prefetch()) idle("prefetch", StrCat(p.prefetch()));
    if (!ahead && p.prefetch_limit_mib() != 0) idle("prefetch_limit_mib", NumberText(p.prefetch_limit_mib()));
    if (!ahead && p.backward_prefetch() == Parallel::BACKWARD_POST) idle("backward_prefetch", "BACKWARD_POST");
  }
  if (p.sharding() == Parallel::NO_SHARD) {
    if (p.has_wrap()) refuse("wrap", "a policy", "sharded layouts, which have units");
  } else if (p.bucket_mib() != usual.bucket_mib()) {
    problems.Add("parallel.bucket_mib", NumberText(p.bucket_mib()), " is only for NO_SHARD, but parallel.sharding is ",
                 Names(p), ", which reduces unit by unit; leave it out, and choose units by parallel.wrap");
  }
  if (p.sharding() == Parallel::SHARD_OPTIMIZER && p.reduce_every_micro_batch()) {
    problems.Add("parallel.reduce_every_micro_batch",
                 "true makes no sense under SHARD_OPTIMIZER, which keeps whole gradients in any case; use false, or "
                 "SHARD_GRAD_OP");
  }
}

void CheckOffload(const spec::Spec& spec, Problems& problems) {
  const Parallel& p = spec.parallel();
  if (p.offload() == Parallel::OFFLOAD_ALL && !ShardsParameters(p)) {
    problems.Add("parallel.offload", "OFFLOAD_ALL offloads shards of parameters, but parallel.sharding is ", Names(p),
                 ", which keeps parameters whole; use OFFLOAD_OPTIMIZER, or FULL_SHARD or HYBRID_SHARD");
  }
  if (p.offload() == Parallel::NO_OFFLOAD && spec.memory().host_budget_mib() > 0) {
    problems.Add("memory.host_budget_mib", NumberText(spec.memory().host_budget_mib()),
                 " limits what is offloaded, but parallel.offload is NO_OFFLOAD; leave it out");
  }
}

// ---- Units ----

// The paths of the modules that the policy would make units.
std::set<std::string> UnitsOf(nn::Module& model, const WrapPolicy& policy) {
  std::set<std::string> units;
  WrapUnits(model, policy, [&](std::unique_ptr<nn::Module> module) {
    units.insert(module->path());
    return module;
  });
  return units;
}

void Visit(const nn::Module& module, const std::function<void(const nn::Module&)>& visit) {
  for (const nn::Module::NamedChild& child : module.children()) {
    visit(*child.module);
    Visit(*child.module, visit);
  }
}

void CheckKind(nn::Module& model, const std::string& kind, Problems& problems) {
  if (!UnitsOf(model, WrapByKind(kind)).empty()) return;
  std::set<std::string> kinds;
  bool exists = false;
  Visit(model, [&](const nn::Module& m) {
    if (m.ParameterCount() > 0) kinds.emplace(m.kind());
    exists = exists || m.kind() == kind;
  });
  const std::vector<std::string> known(kinds.begin(), kinds.end());
  problems.Add("parallel.wrap.module",
               exists ? StrCat("\"", kind,
                               "\": no module of this kind can be a unit: each has no parameters, or shares some with "
                               "a module outside it")
                      : StrCat("\"", kind, "\" is not a kind of module of this model", Suggestion(kind, known)));
}

void CheckPaths(nn::Module& model, const spec::Wrap::Paths& paths, Problems& problems) {
  if (paths.path().empty())
    return problems.Add("parallel.wrap.paths", "names no module; give a path, such as path: \"blocks.0\"");
  const std::set<std::string> units = UnitsOf(model, WrapByPath({paths.path().begin(), paths.path().end()}));
  std::set<std::string> all;
  Visit(model, [&](const nn::Module& m) { all.insert(m.path()); });
  for (const std::string& path : paths.path()) {
    if (units.contains(path)) continue;
    if (all.contains(path)) {
      problems.Add("parallel.wrap.paths", "\"", path,
                   "\" cannot be a unit: it holds no parameters, or shares some with a module outside it; leave it to "
                   "the root unit");
    } else {
      problems.Add("parallel.wrap.paths", "\"", path, "\" is not a module of this model",
                   Suggestion(path, {all.begin(), all.end()}));
    }
  }
}

}  // namespace

void CheckSharding(const spec::Spec& spec, Problems& problems) {
  const Parallel& p = spec.parallel();
  CheckBuckets(p, problems);
  CheckShardGroup(p, problems);
  CheckApplicable(p, problems);
  CheckOffload(spec, problems);
  problems.Whole("parallel.prefetch", p.prefetch(), 0, 1 << 20);
  constexpr double kLeast = 1.0 / 1048576, kMost = 1 << 30;  // a byte, a pebibyte
  const double limit = p.prefetch_limit_mib();
  if (problems.AtLeast("parallel.prefetch_limit_mib", limit, 0) && limit > 0 && !(limit >= kLeast && limit <= kMost)) {
    problems.Add("parallel.prefetch_limit_mib", NumberText(limit), " is out of range; use ", NumberText(kLeast), " to ",
                 NumberText(kMost), ", or 0 for no limit");
  }
  if (p.wrap().has_min_parameters()) {
    problems.Whole("parallel.wrap.min_parameters", p.wrap().min_parameters(), 1, int64_t{1} << 50);
  }
}

void CheckUnits(const spec::Spec& spec, Problems& problems) {
  const spec::Wrap& wrap = spec.parallel().wrap();
  if (!wrap.has_module() && !wrap.has_paths()) return;
  const std::shared_ptr<const Model> kind = ModelOf(spec.model());
  // A transformer has blocks, which are its usual units. To make the model in order to see that takes long.
  const bool has_blocks = kind->input().kind == ModelInput::kTokens && kind->shape().layers > 0;
  if (has_blocks && wrap.has_module() && wrap.module() == kind->unit()) return;
  const std::unique_ptr<nn::Module> model = MakeModel(*kind, DType::kF32);
  if (wrap.has_module()) CheckKind(*model, wrap.module(), problems);
  if (wrap.has_paths()) CheckPaths(*model, wrap.paths(), problems);
}

}  // namespace twofold
