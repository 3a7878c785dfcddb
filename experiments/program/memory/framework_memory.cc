#include "experiments/program/memory/framework_memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "strategies/from_spec.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace {

constexpr double kMiB = 1 << 20;

// Ranks that share one copy of what the sharding divides.
int64_t Sharers(const spec::Parallel& p) {
  if (p.sharding() == spec::Parallel::NO_SHARD) return 1;
  return p.sharding() == spec::Parallel::HYBRID_SHARD ? p.shard_group() : p.dp() * p.cp();
}

// What a rank's part of the model has of the things that frameworks hold tensors for.
struct Sizes {
  double parameters = 0, shard = 0;
  double logits = 0;  // elements, of one micro-batch; 0: the rank has no head
};

Sizes SizesOf(const spec::Spec& spec, const RankKind& kind) {
  const spec::Parallel& p = spec.parallel();
  const ModelInput input = ModelOf(spec.model())->input();
  Sizes sizes{.parameters = static_cast<double>(kind.record.parameters()), .shard = 0, .logits = 0};
  sizes.shard = sizes.parameters / static_cast<double>(Sharers(p));
  const bool head = PlaceOf(MeshOf(p), kind.ranks[0]).pp + 1 == p.pp();
  const int64_t rows = spec.train().micro_batch() * (input.kind == ModelInput::kTokens ? input.length / p.cp() : 1);
  if (head) sizes.logits = static_cast<double>(rows * input.classes) / static_cast<double>(p.tp());
  return sizes;
}

template <class List, class Value>
bool Lists(const List& list, Value value) {
  return list.empty() || std::find(list.begin(), list.end(), static_cast<int>(value)) != list.end();
}

bool Applies(const framework::Held& held, const spec::Spec& spec) {
  const spec::Precision& precision = spec.train().precision();
  return Lists(held.parameter(), precision.parameter()) && Lists(held.gradient(), precision.gradient()) &&
         Lists(held.sharding(), spec.parallel().sharding());
}

double BytesOf(const framework::Held& held, const Sizes& sizes) {
  return held.bytes_per_parameter() * sizes.parameters + held.bytes_per_shard_parameter() * sizes.shard +
         held.bytes_per_logit() * sizes.logits + held.mib() * kMiB;
}

// What passes between two blocks.
double BoundaryBytes(const spec::Spec& spec) {
  const spec::Parallel& p = spec.parallel();
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  if (p.tp() == 1 || model->shape().layers < 2) return 0;
  const Boundary boundary = model->BoundaryBefore(
      1,
      {.samples = spec.train().micro_batch(), .cp = p.cp(), .tp = p.tp(), .sequence_parallel = p.sequence_parallel()});
  return static_cast<double>(boundary.shape.numel() * ElementSize(ToDType(spec.train().precision().parameter())));
}

double ContextBytes(const framework::Memory& memory, const spec::Spec& spec) {
  const auto cluster = FindCluster(spec.fabric().simulated().cluster());
  for (const framework::Context& context : memory.context()) {
    if (cluster.ok() && cluster->device().name().starts_with(context.device())) return context.mib() * kMiB;
  }
  return memory.context_mib() * kMiB;
}

class Sum {
 public:
  Sum(const spec::Spec& spec, const framework::Framework& f, const RankKind& kind)
      : memory_(f.memory()), own_(kind.record.memory()), context_(ContextBytes(f.memory(), spec)) {
    const Sizes sizes = SizesOf(spec, kind);
    for (const framework::Held& held : memory_.held()) {
      if (!Applies(held, spec)) continue;
      const double bytes = BytesOf(held, sizes);
      in_[held.when()] += bytes;
      parts_.push_back({held.name(), held.when(), bytes});
    }
    passes_ = static_cast<double>(own_.peak_bytes()) + in_[Held::IN_PASSES];
    step_ = static_cast<double>(kind.between.live.value()) + in_[Held::IN_STEP];
    allocated_ = in_[Held::ALWAYS] + std::max(passes_, step_);
    const framework::Slack& slack = memory_.slack();
    slack_ = slack.mib() * kMiB + slack.of_peak() * allocated_ + slack.boundary_tensors() * BoundaryBytes(spec);
    communicators_ = static_cast<double>(Communicators(spec, kind.ranks[0])) * memory_.communicator_mib() * kMiB;
  }

  report::FrameworkMemory Result() const {
    report::FrameworkMemory out;
    const double fragments = static_cast<double>(own_.reserved_bytes() - own_.peak_bytes()),
                 workspace = memory_.workspace_mib() * kMiB;
    // Of what the allocator has cached, only tensors of passes are there while they run.
    const double largest = in_[Held::ALWAYS] + passes_ + in_[Held::IN_STEP];
    const double soft = std::max(0.0, largest - allocated_) + in_[Held::CACHED] + slack_,
                 hard = allocated_ + fragments + workspace, outside = context_ + communicators_;
    for (const Part& part : parts_) Add(part.name, part.bytes, out);
    Add("fragments, as above", fragments, out);
    Add("slack of the allocator", slack_, out);
    Add("workspace", workspace, out);
    Add("context", context_, out);
    Add("communicators", communicators_, out);
    const double device = hard + soft + outside;
    out.set_allocated_bytes(std::llround(allocated_));
    out.set_reserved_bytes(std::llround(hard + soft));
    out.set_device_bytes(std::llround(device));
    out.set_device_low_bytes(std::llround(device * (1 - memory_.error())));
    out.set_device_high_bytes(std::llround(device * (1 + memory_.error())));
    out.set_least_device_bytes(std::llround(hard + memory_.slack().when_full() * soft + outside));
    return out;
  }

 private:
  using Held = framework::Held;
  struct Part {
    std::string name;
    Held::When when;
    double bytes;
  };
  static void Add(const std::string& name, double bytes, report::FrameworkMemory& out) {
    if (std::llround(bytes) == 0) return;
    auto& part = *out.add_parts();
    part.set_name(name), part.set_bytes(std::llround(bytes));
  }

  const framework::Memory& memory_;
  const report::Rank& own_;
  const double context_;
  double in_[Held::When_ARRAYSIZE] = {};
  std::vector<Part> parts_;
  double passes_ = 0, step_ = 0, allocated_ = 0, slack_ = 0, communicators_ = 0;
};

}  // namespace

int64_t Communicators(const spec::Spec& spec, int rank) {
  const spec::Parallel& p = spec.parallel();
  const int64_t world = p.pp() * p.dp() * p.cp() * p.tp();
  if (world == 1) return 0;
  int64_t count = 1;
  for (const int64_t axis : {p.tp(), p.cp(), p.ep(), p.dp()}) count += axis > 1 && axis < world;
  count += p.tp() > 1 && p.pp() > 1 && p.tp() * p.pp() < world;
  if (p.sharding() == spec::Parallel::HYBRID_SHARD && p.shard_group() < p.dp()) count += 1 + (p.shard_group() > 1);
  if (p.pp() == 1) return count;
  const int stage = PlaceOf(MeshOf(p), rank).pp;
  const bool end = stage == 0 || stage + 1 == p.pp();
  return count + (end && p.virtual_stages() == 1 ? 1 : 2) + (end && ModelOf(spec.model())->shape().tied);
}

std::vector<report::FrameworkMemory> FrameworkMemoryOf(const spec::Spec& spec, const framework::Framework& f,
                                                       const MemoryPrediction& needed) {
  std::vector<report::FrameworkMemory> all;
  for (const RankKind& kind : needed.kinds) all.push_back(Sum(spec, f, kind).Result());
  return all;
}

absl::Status FrameworkFits(const std::vector<report::FrameworkMemory>& memory, const MemoryPrediction& needed,
                           const framework::Framework& f, Bytes device) {
  size_t most = 0;
  for (size_t i = 1; i < memory.size(); ++i) {
    if (memory[i].least_device_bytes() > memory[most].least_device_bytes()) most = i;
  }
  const report::FrameworkMemory& m = memory[most];
  if (device.value() == 0 || m.least_device_bytes() <= device.value()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      StrCat("rank ", needed.kinds[most].ranks[0], ": under ", f.name(), " its process takes at least ",
             CountText(m.least_device_bytes()), " bytes (", CountText(m.allocated_bytes()), " of tensors), ",
             CountText(m.least_device_bytes() - device.value()), " more than the device has"));
}

}  // namespace twofold
