#include "experiments/program/storm/trial.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "backends/registry.h"
#include "backends/simulated/fabric.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/io/checkpoint_folder.h"
#include "core/proto/bytes.h"
#include "experiments/program/spec/elastic.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/storm/schedule.h"

namespace twofold::storm {
namespace {

constexpr int64_t kFileCallsPerSave = 9;  // two files: create, reserve, write, flush; name and flush the folder

// Of this process and the children that it has waited for.
double ProcessorSeconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage use = {};
    getrusage(who, &use);
    for (const timeval& t : {use.ru_utime, use.ru_stime})
      seconds += static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  }
  return seconds;
}

int64_t CallsOf(const report::RankRecord& record) {
  int64_t calls = 0;
  for (const report::Collective& c : record.collectives()) calls += c.count();
  return calls;
}

}  // namespace

const report::RankRecord* Evidence::lead() const {
  const report::RankRecord* best = nullptr;
  const auto progress = [](const report::RankRecord& r) {
    const int64_t generation = r.generations().empty() ? 0 : r.generations(r.generations_size() - 1).number();
    return std::tuple(r.complete(), generation, r.first_step() + r.steps_size());
  };
  for (const auto& [member, record] : records) {
    if (best == nullptr || progress(record) > progress(*best)) best = &record;
  }
  return best;
}

std::map<int64_t, std::map<int64_t, int64_t>> BatchesOf(const Evidence& evidence, int generation) {
  std::map<int64_t, std::map<int64_t, int64_t>> batches;
  std::map<int, int64_t> steps;  // that the member has done
  for (const Seen& seen : evidence.seen) {
    if (seen.generation != generation) continue;
    if (seen.what == Seen::kDone) steps[seen.member] = seen.steps;
    if (seen.what == Seen::kSample) ++batches[steps[seen.member]][static_cast<int64_t>(seen.value)];
  }
  return batches;
}

absl::StatusOr<std::unique_ptr<Trials>> Trials::Make(const spec::Spec& spec, const Samples& samples,
                                                     const std::string& folder) {
  absl::StatusOr<std::unique_ptr<Witness>> witness = Witness::Make();
  if (!witness.ok()) return witness.status();
  std::unique_ptr<Trials> trials(new Trials(spec, samples, *std::move(witness)));
  trials->spec_.mutable_trace()->set_enabled(false);
  trials->SetFolder(folder);
  if (const absl::Status learned = trials->Learn(); !learned.ok()) return learned;
  if (const absl::Status saved = trials->SaveEarlier(); !saved.ok()) return saved;
  return trials;
}

absl::Status Trials::MoveTo(const std::string& folder) {
  absl::StatusOr<std::unique_ptr<Witness>> witness = Witness::Make();
  if (!witness.ok()) return witness.status();
  witness_ = *std::move(witness);
  SetFolder(folder);
  return absl::OkStatus();
}

void Trials::SetFolder(const std::string& folder) {
  folder_ = folder;
  if (spec_.train().has_checkpoint()) spec_.mutable_train()->mutable_checkpoint()->set_path(folder);
}

absl::StatusOr<Evidence> Trials::Run(const Schedule& schedule) const {
  spec::Spec spec = spec_;
  AddTo(schedule, spec);
  absl::StatusOr<Evidence> evidence = RunSpec(spec, HasEarlier(schedule) ? earlier_ : "");
  if (!evidence.ok()) return evidence;
  absl::StatusOr<std::shared_ptr<Resumed>> resumed = Resume(*evidence);
  if (!resumed.ok()) return resumed.status();
  evidence->resumed = *std::move(resumed);
  return evidence;
}

absl::StatusOr<Evidence> Trials::RunSpec(const spec::Spec& spec, const std::string& earlier) const {
  const double before = ProcessorSeconds();
  int64_t sequence_before = 0;
  if (const std::string& folder = spec.train().checkpoint().path(); !folder.empty()) {
    std::error_code none;
    std::filesystem::remove_all(folder, none);
    if (!earlier.empty()) {
      std::filesystem::copy(earlier, folder, std::filesystem::copy_options::recursive, none);
      if (none) return Internal(folder, ": cannot get the checkpoints of ", earlier, ": ", none.message());
      sequence_before = checkpoint::List(folder).at(0).sequence;
    }
  }
  witness_->Forget();
  absl::StatusOr<std::unique_ptr<Fabric>> fabric = MakeFabric(spec);
  if (!fabric.ok()) return fabric.status();
  TrainingOptions options = TrainingOptionsFor(spec);
  witness_->Watch(options);
  RunResult result = (*fabric)->Run(static_cast<int>(RanksToStart(spec)),
                                    [&](RankContext& ctx) { return witness_->Train(ctx, options, samples_); });
  Evidence evidence = {.status = result.status,
                       .notes = std::move(result.notes),
                       .struck = std::move(result.struck),
                       .records = {},
                       .seen = {witness_->seen().begin(), witness_->seen().end()},
                       .ends = witness_->ends(),
                       .saw_all = !witness_->full(),
                       .sequence_before = sequence_before};
  for (size_t r = 0; r < result.results.size(); ++r) {
    if (result.results[r].empty()) continue;
    report::RankRecord record;
    if (const absl::Status read = FromBytes(result.results[r], "a rank's record", record); !read.ok()) return read;
    evidence.records.emplace(static_cast<int>(r), std::move(record));
  }
  evidence.processor_seconds = ProcessorSeconds() - before;
  return evidence;
}

// Other seeds draw other parameters and samples, so that nobody can take its checkpoints for the run's own unnoticed.
absl::Status Trials::SaveEarlier() {
  if (!spec_.train().has_elastic() || !spec_.train().has_checkpoint()) return absl::OkStatus();
  spec::Spec spec = spec_;
  spec.mutable_train()->set_seed(spec_.train().seed() + 1);
  spec.mutable_train()->mutable_checkpoint()->set_path(StrCat(folder_, "-earlier"));
  const absl::StatusOr<Evidence> run = RunSpec(spec);
  if (!run.ok()) return run.status();
  if (!run->status.ok()) return FailedPrecondition("with another train.seed: ", std::string(run->status.message()));
  earlier_ = spec.train().checkpoint().path();
  return absl::OkStatus();
}

// Runs the spec without disasters, with as many replicas as it begins with, and with any other number that may train.
absl::Status Trials::Learn() {
  const absl::StatusOr<Evidence> own = RunSpec(spec_);
  if (!own.ok()) return own.status();
  if (!own->status.ok())
    return FailedPrecondition("the run fails without any disaster: ", std::string(own->status.message()));
  const report::RankRecord& lead = *own->lead();
  for (const report::Step& step : lead.steps()) reference_.losses.push_back(step.loss());
  const auto batches = BatchesOf(*own, 0);
  reference_.batches.resize(static_cast<size_t>(spec_.train().steps()));
  for (const auto& [step, batch] : batches) {
    if (step < spec_.train().steps()) reference_.batches[static_cast<size_t>(step)] = batch;
  }
  std::set<std::pair<int64_t, uint64_t>> differ;  // between ranks
  for (const Seen& seen : own->seen) {
    if (seen.what == Seen::kPiece) {
      const auto [known, first] = reference_.state.try_emplace({seen.steps, seen.key}, seen.value);
      if (!first && known->second != seen.value) differ.insert(known->first);
    }
    reference_.seconds = std::max(reference_.seconds, seen.time);
  }
  for (const auto& key : differ) reference_.state.erase(key);
  for (const auto& [rank, record] : own->records) {
    reference_.peak_bytes[rank] = record.memory().peak_bytes();
    reference_.most_bytes = std::max<int64_t>(reference_.most_bytes, record.memory().peak_bytes());
  }
  const spec::Elastic& elastic = spec_.train().elastic();
  for (int64_t dp = elastic.min_dp(); spec_.train().has_elastic() && dp <= elastic.max_dp(); ++dp) {
    const spec::Spec other = WithReplicas(spec_, dp);
    if (dp == spec_.parallel().dp() || !Validate(other, spec_.name()).ok()) continue;
    const absl::StatusOr<Evidence> run = RunSpec(other);
    if (!run.ok()) return run.status();
    if (!run->status.ok()) return FailedPrecondition("with ", dp, " replicas: ", std::string(run->status.message()));
    for (const auto& [rank, record] : run->records)
      reference_.most_bytes = std::max<int64_t>(reference_.most_bytes, record.memory().peak_bytes());
  }
  absl::StatusOr<std::vector<std::string>> links = SimulatedLinks(spec_);
  if (!links.ok()) return links.status();
  terrain_ = {.ranks = RanksToStart(spec_),
              .elastic = spec_.train().has_elastic(),
              .steps = spec_.train().steps(),
              .seconds = reference_.seconds,
              .calls = std::max<int64_t>(1, CallsOf(lead)),
              .links = *std::move(links),
              .timeout_s = spec_.fabric().timeout_s(),
              .reform_timeout_s = elastic.reform_timeout_s(),
              .file_calls = kFileCallsPerSave * lead.checkpoints_size()};
  return absl::OkStatus();
}

}  // namespace twofold::storm
