#include "strategies/recorder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/base/check.h"
#include "core/base/errors.h"
#include "core/base/strings.h"
#include "core/proto/bytes.h"
#include "core/proto/report.pb.h"
#include "strategies/kernel_totals.h"

namespace twofold {

void MemorySamples::Reached(Seconds time) {
  if (ahead_.empty()) return;
  Sample reached = ahead_.front();
  ahead_.pop_front();
  reached.time = latest_ = std::max(latest_, time);
  Add(reached);
}

void MemorySamples::Finish(Seconds time) {
  while (!ahead_.empty()) Reached(time);
}

void MemorySamples::Add(const Sample& sample) {
  const bool merge = in_last_ < stride_ && !samples_.empty();
  if (!merge && samples_.size() == limit_) Merge();
  if (in_last_ < stride_ && !samples_.empty()) {
    ++in_last_;
    if (sample.live >= samples_.back().live) samples_.back() = sample;
    return;
  }
  in_last_ = 1;
  samples_.push_back(sample);
}

void MemorySamples::Merge() {
  size_t kept = 0;
  for (size_t i = 0; i < samples_.size(); i += 2) {
    const bool second = i + 1 < samples_.size() && samples_[i + 1].live >= samples_[i].live;
    samples_[kept++] = samples_[second ? i + 1 : i];
  }
  // With an odd count the last sample represents half a stride and is filled up first.
  in_last_ = samples_.size() % 2 == 0 ? 2 * stride_ : stride_;
  samples_.resize(kept);
  stride_ *= 2;
}

std::vector<int64_t> MemorySamples::Numbers() const {
  std::vector<int64_t> numbers;
  for (const Sample& s : samples_) numbers.push_back(s.change);
  for (const Sample& s : ahead_) numbers.push_back(s.change);
  return numbers;
}

void MemorySamples::WriteTo(Seconds origin, report::RankRecord& record) const {
  for (const Sample& s : samples_) {
    report::MemorySample* out = record.add_samples();
    out->set_time((s.time - origin).value());
    for (const Bytes live : s.live_by_category) out->add_live_by_category(live.value());
    out->set_reserved(s.reserved.value());
  }
}

namespace {

void AddCategories(const MemoryStats& stats, google::protobuf::RepeatedPtrField<report::Category>& categories) {
  for (size_t c = 0; c < kCategories; ++c) {
    report::Category* category = categories.Add();
    category->set_name(std::string(CategoryName(static_cast<Category>(c))));
    category->set_peak_bytes(stats.peak_by_category[c].value());
    category->set_bytes_at_peak(stats.at_peak[c].value());
  }
}

}  // namespace

bool IsTraced(const RecorderOptions& options, int rank) {
  if (!options.trace) return false;
  if (rank < options.traced_ranks) return true;
  const MeshPlace place = PlaceOf(options.mesh, rank);
  return options.mesh.pp > 1 && place.dp == 0 && place.cp == 0 && place.tp == 0;
}

Recorder::Recorder(RankContext& ctx, const RecorderOptions& options, int64_t first_step)
    : ctx_(ctx),
      steps_(options.steps),
      warm_up_end_(first_step + options.warmup_steps),
      record_(std::make_unique<report::RankRecord>()) {
  const int64_t traced = std::max(first_step, steps_ - options.traced_steps);
  first_traced_step_ = IsTraced(options, ctx.member()) ? traced : steps_;
  trace_start_ = options.trace ? traced : steps_;
  record_->set_rank(ctx.member());
  record_->set_first_step(first_step);
  constexpr int64_t kReserved = 1 << 16;  // the number of steps may be huge and never be reached
  record_->mutable_steps()->Reserve(static_cast<int>(std::min(steps_ - first_step, kReserved)));
}

Recorder::~Recorder() {
  if (!tracing_) return;
  ctx_.trace().SetEnabled(false);
  ctx_.device().allocator().ledger().SetObserver(nullptr);
}

void Recorder::StartTracing() {
  tracing_ = true;
  trace_origin_ = step_start_;
  SampleMemory(ctx_.memory());
  CachingAllocator& allocator = ctx_.device().allocator();
  allocator.ledger().SetObserver([this](const MemoryStats& stats) { SampleMemory(stats); });
  blocks_.emplace(
      allocator, [this] { return samples_->changes(); }, [this] { return samples_->Numbers(); }, kMemoryBlocks);
  ctx_.trace().SetEnabled(true);
}

void Recorder::SampleMemory(const MemoryStats& stats) {
  samples_->Change(stats);
  ctx_.WhenReached([samples = samples_](Seconds time) { samples->Reached(time); });
}

void Recorder::SetParameters(int64_t count) { record_->set_parameters(count); }

void Recorder::Routed(int64_t block, std::span<const int64_t> choices) {
  std::vector<int64_t>& sum = routed_[block];
  sum.resize(choices.size());
  for (size_t e = 0; e < choices.size(); ++e) sum[e] += choices[e];
}

void Recorder::ActionLaunched(bool begins) {
  ctx_.WhenReached([actions = actions_, begins](Seconds time) {
    Actions& a = *actions;
    if (begins) {
      a.begin = time.value();
      if (a.done == 0) a.first = a.begin;
      return;
    }
    ++a.done, a.last = time.value(), a.working += a.last - a.begin;
  });
}

void Recorder::BeginStep(int64_t step) {
  routed_.clear();
  actions_ = std::make_shared<Actions>();
  in_step_ = true;
  if (open_steps_ > 0) return;
  step_start_ = ctx_.clock().Now();
  if (ExecutionGraph* graph = ctx_.trace().graph()) graph->Mark(StrCat(kStepMark, step, kBeginsMark));
  stalled_at_start_ = ctx_.device().compute().stalled();
  if (step >= first_traced_step_ && !tracing_) StartTracing();
}

void Recorder::EndStep(std::optional<double> loss) {
  in_step_ = false;
  ++open_steps_;
  codec_of_open_.push_back(std::exchange(codec_, {}));
  if (loss) return RecordOpenSteps(loss);
  const int64_t done = record_->first_step() + record_->steps_size() + open_steps_;
  if (done == warm_up_end_ || done == trace_start_) CatchUp();
}

void Recorder::Repeat(int64_t steps) {
  TWOFOLD_CHECK(open_steps_ == 0 && record_->steps_size() > 0, "the last step was recorded");
  const report::Step last = record_->steps(record_->steps_size() - 1);
  for (int64_t i = 0; i < steps; ++i) *record_->add_steps() = last;
}

void Recorder::CatchUp() {
  if (open_steps_ == 0) return;
  ctx_.device().compute().Synchronize();
  RecordOpenSteps(std::nullopt);
}

void Recorder::RecordOpenSteps(std::optional<double> loss) {
  const auto steps = static_cast<double>(open_steps_);
  last_step_ = (ctx_.clock().Now() - step_start_) / steps;
  if (ExecutionGraph* graph = ctx_.trace().graph()) {
    const int64_t last = record_->first_step() + record_->steps_size() + open_steps_ - 1;
    graph->Mark(StrCat(kStepMark, last, kEndsMark));
  }
  const Seconds stalled =
      (std::exchange(waited_, Seconds()) + ctx_.device().compute().stalled() - stalled_at_start_) / steps;
  if (tracing_) traced_steps_ += open_steps_;
  for (; open_steps_ > 0; --open_steps_) {
    report::Step* step = record_->add_steps();
    step->set_seconds(last_step_.value());
    if (open_steps_ == 1 && actions_->done > 0) {
      report::ActionTimes& actions = *record_->add_actions();
      actions.set_step(record_->steps_size());
      actions.set_first(actions_->first), actions.set_last(actions_->last), actions.set_working(actions_->working);
    }
    step->set_exposed_communication_seconds(stalled.value());
    if (open_steps_ == 1 && loss) step->set_loss(*loss);
    const CodecBytes& codec = codec_of_open_[codec_of_open_.size() - static_cast<size_t>(open_steps_)];
    step->set_bytes_before_codec(codec.before.value());
    step->set_bytes_after_codec(codec.after.value());
  }
  codec_of_open_.clear();
}

void Recorder::Used(int64_t staleness) {
  auto& counts = *record_->mutable_gradients_by_staleness();
  while (counts.size() <= staleness) counts.Add(0);
  counts.Set(static_cast<int>(staleness), counts.Get(static_cast<int>(staleness)) + 1);
}

void Recorder::Pause() {
  if (tracing_) ctx_.trace().SetEnabled(false);
}

void Recorder::Resume() {
  if (tracing_) ctx_.trace().SetEnabled(true);
}

void Recorder::BeginValidation() {
  Pause();
  validation_start_ = ctx_.clock().Now();
}

void Recorder::EndValidation(int64_t steps_done, const ValidationResult& result) {
  report::Validation* validation = record_->add_validations();
  validation->set_step(steps_done);
  validation->set_loss(result.loss);
  result.accuracy ? validation->set_accuracy(*result.accuracy) : validation->set_perplexity(std::exp(result.loss));
  validation->set_seconds((ctx_.clock().Now() - validation_start_).value());
  record_->set_stopped_early(result.stop && steps_done < steps_);
  Resume();
}

void Recorder::AddCheckpoint(const checkpoint::Saved& saved) {
  report::Checkpoint* checkpoint = record_->add_checkpoints();
  checkpoint->set_step(saved.step);
  if (!saved.path.empty()) checkpoint->set_path(saved.path), checkpoint->set_bytes(saved.bytes.value());
  checkpoint->set_stood_still_seconds(saved.stood_still.value());
  checkpoint->set_seconds(saved.seconds.value());
}

report::RankRecord Recorder::RecordSoFar() {
  report::RankRecord record = *record_;
  AddMemory(record);
  AddCollectives(record);
  for (const auto& [block, choices] : routed_) {
    report::RoutedChoices& routed = *record.add_routed();
    routed.set_block(block);
    routed.mutable_tokens()->Add(choices.begin(), choices.end());
  }
  for (const std::string& note : ctx_.notes()) record.add_notes(note);
  if (skipped_ > 0) {
    record.add_notes(StrCat(skipped_, " of ", record_->steps_size(),
                            " steps were skipped because their gradients were not finite; the loss scale is ",
                            loss_scale_, " after the last step"));
  }
  const auto [compute, communication, machine] = ctx_.uncertainty();
  record.set_compute_low_ratio(compute.low), record.set_compute_high_ratio(compute.high);
  record.set_communication_low_ratio(communication.low), record.set_communication_high_ratio(communication.high);
  record.set_machine_low_ratio(machine.low), record.set_machine_high_ratio(machine.high);
  return record;
}

report::RankRecord Recorder::Everything() {
  report::RankRecord record = RecordSoFar();
  if (tracing_) AddTimeLine(record);
  return record;
}

std::string Recorder::Record() {
  report::RankRecord record = Everything();
  if (ExecutionGraph* graph = ctx_.trace().graph()) {
    std::string nodes = graph->TakeNodes();
    if (!nodes.empty()) record.set_execution_graph(std::move(nodes));
    if (std::string goal = graph->TakeGoal(); !goal.empty()) record.set_goal(std::move(goal));
    for (const ExecutionGraph::Group& group : graph->groups()) {
      report::GraphGroup& out = *record.add_graph_groups();
      out.set_name(group.name);
      out.mutable_ranks()->Add(group.ranks.begin(), group.ranks.end());
    }
  }
  absl::StatusOr<std::string> bytes = ToBytes(record, StrCat("rank ", ctx_.member(), ": its record"));
  if (!bytes.ok()) throw RankFailure(RankFailure::Kind::kOther, ctx_.member(), std::string(bytes.status().message()));
  return *std::move(bytes);
}

std::string Recorder::PartialRecord() {
  report::RankRecord record = Everything();
  const absl::StatusOr<std::string> bytes = ToBytes(record, StrCat("rank ", ctx_.member(), ": its record"));
  if (bytes.ok()) return *bytes;
  record.clear_spans(), record.clear_samples(), record.clear_blocks();
  record.add_notes(StrCat(bytes.status().message(), "; its timeline was left out"));
  return record.SerializeAsString();
}

std::string Recorder::RecordWithoutTimeLine() { return RecordSoFar().SerializeAsString(); }

void Recorder::AddMemory(report::RankRecord& record) {
  const MemoryStats& stats = ctx_.memory();
  report::Rank* memory = record.mutable_memory();
  memory->set_rank(ctx_.member());
  memory->set_peak_bytes(stats.peak.value());
  memory->set_reserved_bytes(stats.peak_reserved.value());
  memory->set_outside_ledger_bytes(ctx_.outside_ledger_bytes().value());
  AddCategories(stats, *memory->mutable_categories());
  const MemoryStats& host = ctx_.host_memory();
  if (host.peak.value() == 0) return;  // nothing is offloaded
  memory->set_host_peak_bytes(host.peak.value());
  memory->set_host_reserved_bytes(host.peak_reserved.value());
  AddCategories(host, *memory->mutable_host_categories());
}

Seconds Recorder::Interrupt() {
  interrupted_ = ctx_.clock().Now();
  lost_since_ = in_step_ ? step_start_ : interrupted_;
  return interrupted_ - lost_since_;
}

void Recorder::EndInterrupted(bool counts, std::optional<double> loss) {
  if (counts && in_step_) {
    report::Step* step = record_->add_steps();
    step->set_seconds((interrupted_ - step_start_).value());
    if (loss) step->set_loss(*loss);
    lost_since_ = interrupted_;
  }
  in_step_ = false;
  codec_ = {};
}

void Recorder::RollBack(int64_t steps_done) {
  const int kept = static_cast<int>(std::max<int64_t>(0, steps_done - record_->first_step()));
  for (int i = kept; i < record_->steps_size(); ++i) lost_seconds_ += record_->steps(i).seconds();
  if (kept < record_->steps_size()) record_->mutable_steps()->DeleteSubrange(kept, record_->steps_size() - kept);
  const auto later = [steps_done](const auto& of) { return of.step() > steps_done; };
  auto& validations = *record_->mutable_validations();
  validations.erase(std::remove_if(validations.begin(), validations.end(), later), validations.end());
  if (record_->steps_size() == 0) record_->set_first_step(steps_done);
}

void Recorder::AddGeneration(const report::Generation& generation) {
  if (generation.number() > 0 && record_->generations_size() > 0)
    lost_seconds_ += (ctx_.clock().Now() - lost_since_).value();
  *record_->add_generations() = generation;
}

void Recorder::Complete() {
  record_->set_complete(true);
  record_->set_lost_seconds(lost_seconds_);
  record_->set_trained_seconds((ctx_.clock().Now() - set_up_).value());
}

int64_t Recorder::steps_done() const { return record_->first_step() + record_->steps_size(); }

void Recorder::IsSetUp() {
  set_up_ = ctx_.clock().Now();
  for (const auto& [key, entry] : ctx_.communication().entries()) setup_seconds_[key] = entry.seconds;
}

void Recorder::AddCollectives(report::RankRecord& record) {
  for (const auto& [key, entry] : ctx_.communication().entries()) {
    report::Collective* collective = record.add_collectives();
    collective->set_operation(std::string(KindName(key.second)));
    collective->set_group(key.first);
    collective->set_count(entry.count);
    collective->set_bytes(entry.bytes.value());
    const auto before = setup_seconds_.find(key);
    collective->set_seconds(entry.seconds - (before == setup_seconds_.end() ? 0 : before->second));
  }
}

// Adds spans and samples from the first traced step on. Kernel totals are means over the traced steps.
void Recorder::AddTimeLine(report::RankRecord& record) {
  record.set_trace_origin_seconds(trace_origin_.value());
  samples_->Finish(ctx_.clock().Now());  // a run that failed may have pending changes
  samples_->WriteTo(trace_origin_, record);
  if (blocks_) blocks_->WriteTo(samples_->Numbers(), record);
  record.set_samples_at_device(ctx_.KnowsWhenReached());
  KernelTotals kernels(ctx_.trace().expected());
  for (Span& span : ctx_.trace().Take()) {
    report::Span* out = record.add_spans();
    out->set_start((span.start - trace_origin_).value());
    out->set_end((span.end - trace_origin_).value());
    out->set_bytes(span.bytes.value());
    if (span.waiting > Seconds(0)) out->set_waiting(span.waiting.value());
    if (span.exposed > Seconds(0)) out->set_exposed(span.exposed.value());
    if (span.stream == "compute") {
      kernels.Add({.kernel = span.name,
                   .shape = span.shape,
                   .seconds = (span.end - span.start).value(),
                   .flops = span.flops,
                   .bytes = span.bytes.value()});
    }
    if (!span.label.empty()) out->set_label(std::move(span.label));
    if (!span.shape.empty()) out->set_shape(std::move(span.shape));
    out->set_stream(std::move(span.stream));
    out->set_name(std::move(span.name));
  }
  kernels.WriteTo(std::max<int64_t>(1, traced_steps_), record);
}

}  // namespace twofold
