// Checks the axes of `parallel`: whether the model and its batch can be split this way, and whether every option has an
// axis that it affects. Sharding over dp is checked in validate_sharding.cc.
#include <algorithm>
#include <string>

#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "experiments/program/spec/models/rules.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/spec/validate.h"
#include "strategies/from_spec.h"
#include "strategies/pipeline/schedule.h"

namespace twofold {
namespace {

using spec::Parallel;

constexpr int64_t kMostRanks = 1 << 20;

// ---- The mesh ----

// Whether all degrees are in range, so that they can be multiplied.
bool CheckDegrees(const Parallel& p, Problems& problems) {
  constexpr int64_t kMost = 1 << 10;
  bool fine = true;
  const auto check = [&](std::string_view field, int64_t degree, int64_t most) {
    fine = problems.Whole(StrCat("parallel.", field), degree, 1, most) && fine;
  };
  if (p.dp() < 1 || p.dp() > kMostRanks) fine = false;  // reported by CheckBatch
  check("tp", p.tp(), kMost);
  check("pp", p.pp(), kMost);
  check("cp", p.cp(), kMost);
  check("ep", p.ep(), kMost);
  check("virtual_stages", p.virtual_stages(), kMost);
  return fine;
}

// "parallel.pp * dp * cp * tp = 2 * 2 * 1 * 4 = 16"
std::string WorldText(const Parallel& p) {
  return StrCat("pp * dp * cp * tp = ", p.pp(), " * ", p.dp(), " * ", p.cp(), " * ", p.tp(), " = ",
                p.pp() * p.dp() * p.cp() * p.tp());
}

// Whether that many ranks are allowed. Each fabric checks how many it can start (Fabric::Accepts).
bool CheckWorld(const spec::Spec& spec, Problems& problems) {
  const Parallel& p = spec.parallel();
  const int64_t world = WorldSize(spec);  // at most 2^50
  if (world > kMostRanks) {
    problems.Add("parallel", WorldText(p), " ranks are too many; use at most ", kMostRanks);
    return false;
  }
  return true;
}

void CheckOrder(const Parallel& p, Problems& problems) {
  const auto order = ParseMeshOrder(p.order());
  if (!order.ok()) return problems.Add("parallel.order", std::string(order.status().message()));
  const auto usual = ParseMeshOrder(Parallel::default_instance().order());
  const auto long_axes = [&p](const auto& axes) {  // axes whose position matters
    std::vector<Axis> found;
    for (const Axis axis : axes) {
      if ((axis == Axis::kPp ? p.pp() : axis == Axis::kDp ? p.dp() : axis == Axis::kCp ? p.cp() : p.tp()) > 1)
        found.push_back(axis);
    }
    return found;
  };
  const std::vector<Axis> here = long_axes(*order);
  if (*order == *usual || here != long_axes(*usual)) return;
  const std::string why = here.empty()       ? "no axis has more than one rank"
                          : here.size() == 1 ? "only one axis has more than one rank"
                                             : "the axes with more than one rank are in the default order";
  problems.Add("parallel.order", "\"", p.order(), "\" has no effect: in ", WorldText(p), ", ", why, "; leave it out");
}

// ---- Splitting the model ----

// The sizes of a model, and their path in the spec.
struct Sizes : ModelShape {
  std::string path;  // "model.gpt."
};

// "parallel.tp: 3 does not divide model.gpt.heads = 4; use a divisor such as 2 or 4"
void CheckCuts(std::string_view axis, int64_t degree, const std::string& whole_path, int64_t whole,
               Problems& problems) {
  CheckDivides(StrCat("parallel.", axis), degree, whole_path, whole, problems);
}

void CheckTensor(const Parallel& p, const Sizes& sizes, Problems& problems) {
  const int64_t tp = p.tp();
  if (tp == 1) return;
  CheckCuts("tp", tp, sizes.path + "heads", sizes.heads, problems);
  CheckCuts("tp", tp, sizes.path + "ffn", sizes.ffn, problems);
  if (sizes.kv_heads == sizes.heads) return;  // the same as the check of heads
  if (sizes.kv_heads % tp == 0 || tp % sizes.kv_heads == 0) return;
  problems.Add("parallel.tp", tp, " and ", sizes.path, "kv_heads = ", sizes.kv_heads,
               ": one must divide the other, so that ranks split or share the heads of keys and values evenly; use a "
               "tp such as ",
               sizes.kv_heads);
}

void CheckSequence(const Parallel& p, const Sizes& sizes, Problems& problems) {
  if (p.has_tp_backward_overlap() && p.tp() == 1) {
    problems.Add(
        "parallel.tp_backward_overlap", p.tp_backward_overlap() ? "true" : "false",
        " has no effect: it is of messages along tp, but parallel.tp = 1; leave it out, or use a tp of 2 or more");
  }
  if (p.tp_overlap() && !(p.sequence_parallel() && p.tp() > 1)) {
    problems.Add(
        "parallel.tp_overlap", "true passes rows of the sequence around the ranks of tp, but ",
        p.tp() == 1 ? "parallel.tp = 1" : "parallel.sequence_parallel is false, so that each rank has all rows",
        "; leave it out, or use ", p.tp() == 1 ? "a tp of 2 or more and " : "", "sequence_parallel: true");
  }
  if (!p.sequence_parallel()) return;
  if (p.tp() == 1) {
    return problems.Add("parallel.sequence_parallel",
                        "true has no effect: it splits activations over the ranks of tp, but parallel.tp = 1; leave it "
                        "out, or use a tp of 2 or more");
  }
  // With cp a rank has two chunks of a sequence; tp must divide each.
  const int64_t parts = p.cp() == 1 ? p.tp() : 2 * p.cp() * p.tp();
  if (sizes.sequence % parts == 0) return;
  const int64_t below = sizes.sequence / parts * parts;
  problems.Add("parallel.sequence_parallel", "true splits sequences into ", p.cp() == 1 ? "" : "2 * cp * ",
               "tp = ", parts, " parts, but ", sizes.path, "sequence = ", sizes.sequence,
               " is not a multiple of that; use a sequence of ", below > 0 ? StrCat(below, " or ") : "", below + parts,
               ", or false");
}

void CheckContext(const spec::Spec& spec, const Sizes& sizes, Problems& problems) {
  const int64_t cp = spec.parallel().cp();
  if (cp == 1) return;
  if (const int64_t chunks = 2 * cp; sizes.sequence % chunks != 0) {
    const int64_t below = sizes.sequence / chunks * chunks;
    problems.Add("parallel.cp", cp, " splits sequences into 2 * ", cp, " = ", chunks, " chunks, but ", sizes.path,
                 "sequence = ", sizes.sequence, " is not a multiple of that; use a sequence of ",
                 below > 0 ? StrCat(below, " or ") : "", below + chunks);
  }
  if (spec.model().attention() == spec::Model::UNFUSED) {
    problems.Add("parallel.cp", cp,
                 " passes keys and values around a ring, so that no rank ever has whole rows of scores, which "
                 "model.attention: UNFUSED stores; use TILED, or a cp of 1");
  }
}

// Mixtures without capacities.
void CheckDropless(const spec::Spec& spec, Problems& problems) {
  const Parallel& p = spec.parallel();
  const spec::Moe& moe = spec.model().moe();
  if (!moe.dropless()) return;
  if (p.sequence_parallel() && p.tp() > 1) {
    problems.Add(
        "parallel.sequence_parallel",
        "true is not possible with model.moe.dropless: ranks along tp would have different numbers of rows for "
        "each expert, and those cannot be gathered; use false, or capacity_factor instead of dropless");
  }
  const auto& rows = moe.routing().counts().rows();
  for (int i = 0; i < rows.size(); ++i) {
    if (!rows[i].has_rank() || rows[i].rank() < WorldSize(spec)) continue;
    return problems.Add(StrCat("model.moe.routing.counts.rows[", i, "].rank"), rows[i].rank(),
                        " is not a rank of this run, which has ", WorldSize(spec), "; use 0 to ", WorldSize(spec) - 1);
  }
}

void CheckExperts(const Parallel& p, const Sizes& sizes, std::string_view kind, Problems& problems) {
  if (p.ep() == 1) return;
  if (sizes.experts == 0) {
    return problems.Add("parallel.ep", p.ep(), " distributes experts, but model.", kind,
                        " has none; use 1, or model { moe { ... } }");
  }
  CheckCuts("ep", p.ep(), "parallel.dp", p.dp(), problems);
  CheckCuts("ep", p.ep(), StrCat("model.", kind, ".experts"), sizes.experts, problems);
  if (p.sharding() == Parallel::HYBRID_SHARD) {
    problems.Add("parallel.sharding", "HYBRID_SHARD cannot be combined with parallel.ep = ", p.ep(),
                 ": experts are sharded over all ranks that have the same ones, and these do not form shard groups; "
                 "use FULL_SHARD, or an ep of 1");
  }
}

// Of a model of features or images.
void CheckNoSequence(const spec::Spec& spec, std::string_view kind, Problems& problems) {
  const Parallel& p = spec.parallel();
  if (p.tp() > 1) FindModelRules(spec.model().kind_case())->check_tensor(spec.model(), p.tp(), problems);
  if (p.cp() > 1) {
    problems.Add("parallel.cp", p.cp(), " splits sequences, but model.", kind, " has none; use 1, and parallel.dp");
  }
  if (p.sequence_parallel()) {
    problems.Add("parallel.sequence_parallel", "true splits activations along the sequence, but model.", kind,
                 " has no sequences; leave it out");
  }
}

// ---- The pipeline ----

std::string_view ScheduleName(const Parallel& p) { return Parallel::PipelineSchedule_Name(p.schedule()); }

// Refuses options of pipeline stages if there is only one stage.
void CheckNoPipeline(const Parallel& p, Problems& problems) {
  const Parallel& usual = Parallel::default_instance();
  const auto refuse = [&](std::string_view field, const std::string& value) {
    problems.Add(StrCat("parallel.", field), value,
                 " is only for pipelines, but parallel.pp = 1; leave it out, or use a pp of 2 or more");
  };
  if (p.schedule() != usual.schedule()) refuse("schedule", std::string(ScheduleName(p)));
  if (p.virtual_stages() > 1) refuse("virtual_stages", StrCat(p.virtual_stages()));
  if (p.stage_layers_size() > 0) refuse("stage_layers", StrCat("[", absl::StrJoin(p.stage_layers(), ", "), "]"));
  if (p.stage_balance() != usual.stage_balance())
    refuse("stage_balance", Parallel::StageBalance_Name(p.stage_balance()));
  if (p.scatter_gather_messages()) refuse("scatter_gather_messages", "true");
}

void CheckScatterGather(const Parallel& p, Problems& problems) {
  if (!p.scatter_gather_messages() || (p.tp() > 1 && !p.sequence_parallel())) return;
  problems.Add("parallel.scatter_gather_messages",
               p.tp() == 1 ? "true has no effect: it splits messages over the ranks of tp, but parallel.tp = 1; leave "
                             "it out, or use a tp of 2 or more"
                           : "true has no effect: under parallel.sequence_parallel each rank of tp already sends only "
                             "its part of a message; leave one of them out");
}

// `empty_ends`: the first part may have the embedding alone, the last one the head.
void CheckStageLayers(const Parallel& p, const Sizes& sizes, bool empty_ends, Problems& problems) {
  const std::string given = StrCat("[", absl::StrJoin(p.stage_layers(), ", "), "]");
  const int64_t parts = p.pp() * p.virtual_stages();
  if (p.stage_balance() != Parallel::default_instance().stage_balance()) {
    problems.Add("parallel.stage_balance", Parallel::StageBalance_Name(p.stage_balance()),
                 " and parallel.stage_layers = ", given, " both say how many layers each stage has; keep one of them");
  }
  if (p.stage_layers_size() != parts) {
    return problems.Add("parallel.stage_layers", given, " has ", p.stage_layers_size(),
                        " numbers, but parallel.pp * virtual_stages = ", p.pp(), " * ", p.virtual_stages(), " = ",
                        parts, "; use ", parts, " numbers");
  }
  int64_t sum = 0;
  for (int i = 0; i < p.stage_layers_size(); ++i) {
    const bool at_end = i == 0 || i + 1 == p.stage_layers_size();
    if (!problems.Whole(StrCat("parallel.stage_layers[", i, "]"), p.stage_layers(i), empty_ends && at_end ? 0 : 1,
                        sizes.layers))
      return;
    sum += p.stage_layers(i);
  }
  if (sum == sizes.layers) return;
  problems.Add("parallel.stage_layers", given, " add up to ", sum, ", but the model has ", sizes.layers,
               " layers; use numbers that add up to ", sizes.layers);
}

void CheckPipelineSchedule(const spec::Spec& spec, Problems& problems) {
  const Parallel& p = spec.parallel();
  const bool interleaved = p.schedule() == Parallel::INTERLEAVED_ONE_F_ONE_B;
  if (interleaved && p.virtual_stages() == 1) {
    return problems.Add("parallel.schedule",
                        "INTERLEAVED_ONE_F_ONE_B with parallel.virtual_stages = 1 is the same as ONE_F_ONE_B; use "
                        "that, or 2 or more virtual stages");
  }
  if (!interleaved && p.virtual_stages() > 1) {
    return problems.Add("parallel.virtual_stages", p.virtual_stages(),
                        " is only for INTERLEAVED_ONE_F_ONE_B, but parallel.schedule is ", ScheduleName(p),
                        "; use that schedule, or 1");
  }
  constexpr int64_t kMost = 1 << 30;
  if (spec.train().micro_batch() < 1 || spec.train().micro_batch() > kMost) return;  // refused elsewhere
  const int64_t pass = p.dp() * spec.train().micro_batch();
  if (spec.train().global_batch() < pass || spec.train().global_batch() % pass != 0 ||
      spec.train().global_batch() > kMost)
    return;
  const int64_t micro_batches = spec.train().global_batch() / pass;
  const pipeline::PipelineShape shape{.stages = static_cast<int>(p.pp()),
                                      .micro_batches = static_cast<int>(micro_batches),
                                      .chunks = static_cast<int>(p.virtual_stages())};
  const absl::Status status = pipeline::CheckSchedule(ScheduleOf(p), shape);
  if (status.ok()) return;
  problems.Add("parallel.schedule", ScheduleName(p),
               " with train.global_batch / (parallel.dp * train.micro_batch) = ", spec.train().global_batch(), " / (",
               p.dp(), " * ", spec.train().micro_batch(), ") = ", micro_batches,
               " micro-batches: ", std::string(status.message()));
}

void CheckPipeline(const spec::Spec& spec, const Sizes& sizes, Problems& problems) {
  const Parallel& p = spec.parallel();
  if (p.pp() == 1) return CheckNoPipeline(p, problems);
  const int64_t parts = p.pp() * p.virtual_stages();
  const bool empty_ends = spec.model().has_gpt() || spec.model().has_llama() || spec.model().has_moe();
  const bool given = p.stage_layers_size() > 0;
  if (parts > sizes.layers + (given && empty_ends ? 2 : 0)) {
    const ModelRules& rules = *FindModelRules(spec.model().kind_case());
    problems.Add(
        p.virtual_stages() > 1 ? "parallel.virtual_stages" : "parallel.pp", "parallel.pp * virtual_stages = ", p.pp(),
        " * ", p.virtual_stages(), " = ", parts, " parts need a layer each, but ",
        rules.blocks ? rules.blocks(spec.model()) : StrCat(sizes.path, "layers = ", sizes.layers),
        "; use fewer parts, or more layers",
        empty_ends && parts <= sizes.layers + 2 ? " (or parallel.stage_layers, which may be 0 at both ends)" : "");
  } else if (given) {
    CheckStageLayers(p, sizes, empty_ends, problems);
  }
  if (p.virtual_stages() > 1 && p.sharding() == Parallel::NO_SHARD && p.reduce_every_micro_batch()) {
    problems.Add("parallel.reduce_every_micro_batch",
                 "true cannot be combined with parallel.virtual_stages = ", p.virtual_stages(),
                 " under NO_SHARD: a bucket may hold gradients of several chunks, which finish a micro-batch at "
                 "different times; leave it out");
  }
  CheckScatterGather(p, problems);
  CheckPipelineSchedule(spec, problems);
}

}  // namespace

void CheckParallel(const spec::Spec& spec, Problems& problems) {
  const Parallel& p = spec.parallel();
  if (!CheckDegrees(p, problems)) return;
  if (!CheckWorld(spec, problems)) return;
  CheckOrder(p, problems);
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  if (model == nullptr) return;
  const Sizes sizes{model->shape(), StrCat(FindModelRules(spec.model().kind_case())->path, ".")};
  if (model->input().kind != ModelInput::kTokens) {
    CheckNoSequence(spec, model->name(), problems);
  } else {
    // reported by CheckModel
    if (std::min({sizes.heads, sizes.kv_heads, sizes.ffn, sizes.sequence, sizes.layers}) < 1) return;
    CheckTensor(p, sizes, problems);
    CheckSequence(p, sizes, problems);
    CheckContext(spec, sizes, problems);
  }
  CheckExperts(p, sizes, model->name(), problems);
  CheckDropless(spec, problems);
  CheckPipeline(spec, sizes, problems);
}

void CheckMessages(const spec::Spec& spec, Problems& problems) {
  const Parallel& p = spec.parallel();
  if (!p.scatter_gather_messages()) return;
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  for (const nn::ModelPart& part : PartsOf(p, *model)) {
    if (part.embedding) continue;
    const Boundary boundary = model->BoundaryBefore(
        part.first_block, {.cp = p.cp(), .tp = p.tp(), .sequence_parallel = p.sequence_parallel()});
    const int64_t elements = boundary.shape.numel();
    if (boundary.equal && elements % p.tp() == 0) continue;
    return problems.Add(
        "parallel.scatter_gather_messages", "true splits messages over the ranks of tp, but the output of layer ",
        part.first_block - 1,
        boundary.equal ? StrCat(" has ", elements, " elements per sample, not a multiple of parallel.tp = ", p.tp(),
                                "; use another tp, or leave it out")
                       : " is split over them already; end that part with another layer "
                         "(parallel.stage_layers), or leave it out");
  }
}

}  // namespace twofold
