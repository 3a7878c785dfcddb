// Trials::Resume: another run goes on from what a run has saved.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/base/strings.h"
#include "experiments/program/storm/checkpoints.h"
#include "experiments/program/storm/trial.h"

namespace twofold::storm {
namespace {

// Of whichever optimizer there is.
void ScaleLearningRate(spec::Optimizer& optimizer, double factor) {
  const auto* const kind =
      optimizer.GetReflection()->GetOneofFieldDescriptor(optimizer, optimizer.GetDescriptor()->FindOneofByName("kind"));
  google::protobuf::Message& chosen = *optimizer.GetReflection()->MutableMessage(&optimizer, kind);
  const auto* const rate = chosen.GetDescriptor()->FindFieldByName("lr");
  const google::protobuf::Reflection& of = *chosen.GetReflection();
  of.SetDouble(&chosen, rate, of.GetDouble(chosen, rate) * factor);
}

// The spec of a run that begins with so many replicas. What follows from that is worked out here, and not by the code
// with which a run changes its replicas, which is to be judged.
spec::Spec BeginningWith(const spec::Spec& spec, int64_t dp) {
  spec::Spec other = spec;
  const int64_t before = spec.parallel().dp();
  spec::Train& train = *other.mutable_train();
  other.mutable_parallel()->set_dp(dp);
  train.mutable_elastic()->set_spare_replicas(0);
  train.mutable_elastic()->set_min_dp(dp);
  train.mutable_elastic()->set_max_dp(dp);
  if (train.elastic().batch() == spec::Elastic::KEEP_LOCAL) {
    train.set_global_batch(spec.train().global_batch() / before * dp);
    ScaleLearningRate(*train.mutable_optimizer(), static_cast<double>(dp) / static_cast<double>(before));
  }
  return other;
}

// The last checkpoint that was announced, can be read, and leaves steps to do. Nullopt: there is none.
std::optional<checkpoint::Found> ToResume(const spec::Spec& spec, const Evidence& evidence) {
  std::set<std::string> announced;
  for (const auto& [member, record] : evidence.records) {
    for (const report::Checkpoint& saved : record.checkpoints()) announced.insert(saved.path());
  }
  for (checkpoint::Found& found : CheckpointsOf(spec.train().checkpoint().path(), evidence.sequence_before)) {
    if (found.step < spec.train().steps() && announced.contains(found.path) && ReadAll(found.path).ok())
      return std::move(found);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Resumed>> Trials::Resume(const Evidence& evidence) const {
  const bool elastic = spec_.train().has_elastic();
  // What compression has left out is divided anew if the ranks are others.
  if (!spec_.train().has_checkpoint() || spec_.parallel().has_compression()) return nullptr;
  if (elastic && !evidence.status.ok()) return nullptr;
  const std::optional<checkpoint::Found> found = ToResume(spec_, evidence);
  if (!found) return nullptr;
  auto resumed = std::make_shared<Resumed>(Resumed{.path = found->path, .step = found->step});
  spec::Spec spec = spec_;
  if (elastic) {
    const report::Generation* trained = nullptr;  // a later one that begins earlier has taken that step back
    for (const report::Generation& g : evidence.lead()->generations()) {
      if (g.first_step() <= found->step) trained = &g;
    }
    if (trained == nullptr) return nullptr;
    resumed->generation = static_cast<int>(trained->number());
    spec = BeginningWith(spec_, trained->dp());
  }
  spec.mutable_train()->set_resume(found->path);
  spec.mutable_train()->mutable_checkpoint()->set_path(StrCat(folder_, "-resumed"));
  absl::StatusOr<Evidence> run = RunSpec(spec);
  if (!run.ok()) return run.status();
  resumed->evidence = *std::move(run);
  return resumed;
}

}  // namespace twofold::storm
