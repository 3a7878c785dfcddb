// What a rank's training leaves behind: steps, memory, communication, and the time line of the last steps, as
// the report::RankRecord that travels back to the program.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "core/run/rank_context.h"
#include "strategies/checkpoint/save.h"
#include "strategies/validation.h"

namespace twofold {

// The memory time line, thinned to at most `limit` samples: every change is kept until there are that many,
// then neighbours are merged two by two and each sample stands for twice as many changes. Of the changes it
// stands for, a sample is the one with the most live bytes, so the highest point of the line is never lost.
//
// What the changes are is known when the host makes them, and when the device reaches them, in the same order, maybe later.
class MemorySamples {
 public:
  explicit MemorySamples(size_t limit) : limit_(limit) {}
  void Change(const MemoryStats& stats) { ahead_.push_back(Of(stats)); }
  void Reached(Seconds time);  // the first change that has not been; after Finish, nothing
  // The device comes no further: what it has not reached has `time`, or that of the last change where it is later.
  void Finish(Seconds time);
  void WriteTo(Seconds origin, report::RankRecord& record) const;
  size_t size() const { return samples_.size(); }

 private:
  struct Sample {
    Seconds time;
    Bytes live, reserved;
    std::array<Bytes, kCategories> live_by_category;
  };
  static Sample Of(const MemoryStats& stats) { return {Seconds(), stats.live, stats.reserved, stats.live_by_category}; }
  void Add(const Sample& sample);
  void Merge();

  const size_t limit_;
  int64_t stride_ = 1;   // changes that one sample stands for
  int64_t in_last_ = 0;  // changes that the last sample stands for so far
  Seconds latest_;       // the last change that was reached
  std::vector<Sample> samples_;
  std::deque<Sample> ahead_;  // changes that the device has not reached
};

// Whose time line a trace covers: the first spec.trace.ranks ranks and, beyond them, the first of every stage of a pipeline.
bool IsTraced(const spec::Spec& spec, int rank);

// One a rank, on its thread. Watches the clock and the compute stream over each step, and, in the last
// spec.trace.last_steps steps of the ranks that are traced, the trace and the memory ledger.
class Recorder {
 public:
  static constexpr size_t kMemorySamples = 4000;

  // `first_step`: training steps done by an earlier run that this one goes on from.
  Recorder(RankContext& ctx, const spec::Spec& spec, int64_t first_step = 0);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void SetParameters(int64_t count) { record_.set_parameters(count); }  // this rank's part of the model
  void BeginStep(int64_t step);
  // The host has waited for everything that the step launched.
  void EndStep(double loss);
  // Of dynamic loss scaling: this run's steps so far that updated nothing, and the scale of the next one.
  void SetSkipped(int64_t steps, double scale) { skipped_ = steps, loss_scale_ = scale; }
  Seconds last_step() const { return last_step_; }
  // Between steps. The trace and the kernels' totals leave validations out; memory is watched all the same.
  void BeginValidation();
  const report::Validation& EndValidation(int64_t steps_done, const ValidationResult& result);

  // Likewise, of whatever else is no part of a step.
  void Pause();
  void Resume();
  void AddCheckpoint(const checkpoint::Saved& saved);

  // Everything so far, serialized. Moves the trace's spans out: call once, at the end. Throws where it is more than a message holds.
  std::string Record();
  // Likewise, of a rank that fails: never throws, and leaves the time line out where that is too much.
  std::string PartialRecord();
  // Likewise, but for the trace, which stays where it is.
  std::string RecordWithoutTimeLine();

 private:
  report::RankRecord RecordSoFar();  // without the time line
  report::RankRecord Everything();
  void StartTracing();
  void SampleMemory(const MemoryStats& stats);
  void AddMemory(report::RankRecord& record);
  void AddCollectives(report::RankRecord& record);
  void AddTimeLine(report::RankRecord& record);

  RankContext& ctx_;
  const bool classifies_;      // else it models language
  int64_t steps_ = 0;
  int64_t skipped_ = 0;
  double loss_scale_ = 1;
  int64_t first_traced_step_;  // from here on steps are traced
  Seconds step_start_, stalled_at_start_, last_step_, trace_origin_;
  Seconds validation_start_;
  bool tracing_ = false;
  int64_t traced_steps_ = 0;
  // Shared with what tells it when the device is there, which may come after this has gone.
  const std::shared_ptr<MemorySamples> samples_ = std::make_shared<MemorySamples>(kMemorySamples);
  report::RankRecord record_;
};

}  // namespace twofold
