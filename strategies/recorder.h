// Records a rank's training: steps, memory, communication, and the time line of the last steps. The result is the
// report::RankRecord that the rank sends back to the program.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/nn/context.h"
#include "core/run/rank_context.h"
#include "strategies/checkpoint/save.h"
#include "strategies/memory_blocks.h"
#include "strategies/validation.h"

namespace twofold {

namespace report {
class Generation;
class RankRecord;
}  // namespace report

// The memory time line, thinned to at most `limit` samples. Every change is kept until there are that many; then
// neighbours are merged in pairs and each sample represents twice as many changes. A sample is the change with the most
// live bytes among those it represents, so the peak of the line is never lost.
//
// The sizes of a change are known when the host makes it. Its time is known when the device reaches it, which may be
// later but is in the same order.
class MemorySamples {
 public:
  explicit MemorySamples(size_t limit) : limit_(limit) {}
  void Change(const MemoryStats& stats) { ahead_.push_back(Of(++changes_, stats)); }
  void Reached(Seconds time);  // the device reached the next pending change; ignored after Finish
  // The device will not run on. Pending changes get `time`, or the last reached change's time if that is later.
  void Finish(Seconds time);
  void WriteTo(Seconds origin, report::RankRecord& record) const;
  size_t size() const { return samples_.size(); }
  int64_t changes() const { return changes_; }  // so far: the number of the latest one
  // The numbers of the changes that are samples, ascending; and of those that are still pending.
  std::vector<int64_t> Numbers() const;

 private:
  struct Sample {
    int64_t change;  // its number
    Seconds time;
    Bytes live, reserved;
    std::array<Bytes, kCategories> live_by_category;
  };
  static Sample Of(int64_t change, const MemoryStats& stats) {
    return {change, Seconds(), stats.live, stats.reserved, stats.live_by_category};
  }
  void Add(const Sample& sample);
  void Merge();

  const size_t limit_;
  int64_t stride_ = 1;   // changes per sample
  int64_t in_last_ = 0;  // changes that the last sample represents so far
  int64_t changes_ = 0;
  Seconds latest_;  // time of the last change that was reached
  std::vector<Sample> samples_;
  std::deque<Sample> ahead_;  // changes that the device has not reached
};

struct RecorderOptions {
  int64_t steps = 0;         // of the whole training, counted from its start
  int64_t warmup_steps = 0;  // of this run
  MeshShape mesh;
  // The last `traced_steps` steps of some ranks are traced: of the first `traced_ranks` ranks, and of the first rank of
  // every pipeline stage.
  bool trace = false;
  int64_t traced_ranks = 0, traced_steps = 0;
};
bool IsTraced(const RecorderOptions& options, int rank);

// One per rank, used from its thread. Watches the clock and the compute stream over each step: from one wait of the
// host for the device to the next. If the host waits only after several steps, each of them gets an equal part of the
// time. They are recorded at that wait, so if a run fails or is interrupted, its record lacks the steps for which it
// has not waited. The host also waits at the end of the warm-up and before the first traced step, so neither shares its
// time with other steps. In the traced steps of a traced rank, it also watches the trace and the memory ledger.
class Recorder final : public nn::CodecObserver, public nn::RoutingObserver {
 public:
  static constexpr size_t kMemorySamples = 4000, kMemoryBlocks = 50'000;

  // `first_step`: training steps done by the run that this one resumes.
  Recorder(RankContext& ctx, const RecorderOptions& options, int64_t first_step = 0);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void SetParameters(int64_t count);  // this rank's part of the model
  void IsSetUp();                     // all ranks are: the first step begins
  void BeginStep(int64_t step);
  // `loss`: read from the device after everything that the step launched; null if the host did not wait for that.
  void EndStep(std::optional<double> loss);
  // As many more steps were like the last one. Call between steps, if the host has waited for that.
  void Repeat(int64_t steps);
  int64_t first_traced_step() const { return trace_start_; }  // on any rank
  void CatchUp();                                             // waits for the device, so that the record has all steps
  // When the compute stream gets here, one of a pipeline's actions begins or ends. For devices that hold nothing.
  void ActionLaunched(bool begins);
  void CodecWorks(bool works) override { ctx_.trace().SetCodec(works); }
  void Encoded(Bytes before, Bytes after) override { codec_.before += before, codec_.after += after; }
  void Routed(int64_t block, std::span<const int64_t> choices) override;
  // For dynamic loss scaling: the steps of this run that were skipped so far, and the scale of the next step.
  void SetSkipped(int64_t steps, double scale) { skipped_ = steps, loss_scale_ = scale; }
  Seconds last_step() const { return last_step_; }  // zero until a step is recorded
  // Called between steps. The trace and the kernel totals leave validations out; memory is still watched.
  void BeginValidation();
  void EndValidation(int64_t steps_done, const ValidationResult& result);

  // ---- Asynchronous SGD ----
  void Waited(Seconds time) { waited_ += time; }  // in this step, for messages of other ranks: exposed communication
  void Used(int64_t staleness);                   // a gradient was used that was so many updates old

  // Likewise, for any other work that is not part of a step.
  void Pause();
  void Resume();
  void AddCheckpoint(const checkpoint::Saved& saved);

  // ---- Elastic training: generations of members, and the time that changes cost ----
  // Call when this rank knows that a member was lost. Returns the time since the step began that was interrupted; zero
  // if none was.
  Seconds Interrupt();
  // That step counts after all, with this loss, or it does not.
  void EndInterrupted(bool counts, std::optional<double> loss);
  void RollBack(int64_t steps_done);                         // forgets later steps: they are done again
  void AddGeneration(const report::Generation& generation);  // its first step can begin
  void Complete();                                           // the last step is done
  int64_t steps_done() const;                                // of the training

  // The record so far, serialized. Moves the trace's spans out: call it once, at the end. Throws if the record is
  // larger than a message may be.
  std::string Record();
  // The same for a rank that fails. Never throws; leaves the time line out if the record would be too large.
  std::string PartialRecord();
  // The same without the time line. The trace's spans stay where they are.
  std::string RecordWithoutTimeLine();

 private:
  report::RankRecord RecordSoFar();  // without the time line
  report::RankRecord Everything();
  void RecordOpenSteps(std::optional<double> loss);
  void StartTracing();
  void SampleMemory(const MemoryStats& stats);
  void AddMemory(report::RankRecord& record);
  void AddCollectives(report::RankRecord& record);
  void AddTimeLine(report::RankRecord& record);

  RankContext& ctx_;
  const int64_t steps_;
  int64_t skipped_ = 0;
  double loss_scale_ = 1;
  struct CodecBytes {
    Bytes before, after;
  };
  std::map<int64_t, std::vector<int64_t>> routed_;  // by block: of this step's micro-batches so far
  CodecBytes codec_;                                // since the last step's end
  std::vector<CodecBytes> codec_of_open_;           // of the open steps
  int64_t first_traced_step_;                       // steps are traced from this one on
  const int64_t warm_up_end_;                       // steps done at the end of the warm-up,
  int64_t trace_start_;                             // and before the first step that is traced on any rank
  int64_t open_steps_ = 0;                          // steps that ended since the host waited
  Seconds step_start_, stalled_at_start_, last_step_, trace_origin_;
  std::map<std::pair<std::string, Communication::Kind>, double> setup_seconds_;  // of communication before IsSetUp
  Seconds validation_start_;
  Seconds waited_;  // in this step, on the host
  bool tracing_ = false;
  int64_t traced_steps_ = 0;
  bool in_step_ = false;
  Seconds set_up_, interrupted_, lost_since_;  // lost_since_: the beginning of what the present change costs
  double lost_seconds_ = 0;
  // Shared with the callbacks that report when the device reaches a change; they may run after this object is
  // destroyed.
  const std::shared_ptr<MemorySamples> samples_ = std::make_shared<MemorySamples>(kMemorySamples);
  std::optional<MemoryBlocks> blocks_;  // while tracing
  // Of the step's actions, likewise shared.
  struct Actions {
    int64_t done = 0;
    double begin = 0;  // of the present one
    double first = 0, last = 0, working = 0;
  };
  std::shared_ptr<Actions> actions_ = std::make_shared<Actions>();
  const std::unique_ptr<report::RankRecord> record_;
};

}  // namespace twofold
