// The points of a sweep: specs that differ in some fields, to be predicted, measured, or both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/predict/sweep.h"

namespace twofold::sweep {

// What follows from the number of replicas (parallel.dp). At every point a rank has as many micro-batches per step as
// the spec states by train.global_batch and train.micro_batch; one, if it states only one of them.
enum class Scaling {
  kNone,    // as the spec says
  kStrong,  // train.global_batch stays, and train.micro_batch follows: the job stays, and ranks share it
  kWeak,    // train.micro_batch stays, and train.global_batch follows: the work of a rank stays
};

inline constexpr int64_t kMostMeasurements = 1000;  // points times repeats

// As the command line gives it. Either `predict` or `measure`, or both.
struct Asked {
  std::string file;                              // begins errors
  std::string fabric;                            // to measure on; "": the spec's, in_memory where that is simulated
  std::vector<std::string> sets, varied, fixed;  // of --set, --vary, --fixed
  std::string scaling;                           // "", "strong", "weak"
  bool predict = false, measure = false;         // neither: what the spec's fabric does
  int repeats = 1;                               // of measurements
};

// A point that cannot be run has the reason in place of its spec: its values contradict each other.
struct Point {
  std::vector<std::string> values;                                // of each varied field
  std::vector<std::string> follows;                               // "path=value" of what follows by `scaling`
  std::optional<absl::StatusOr<spec::Spec>> predicted, measured;  // resolved; absent: not asked for
};

struct Points {
  std::string name, fabric;  // of the spec; the fabric to measure on, "" if nothing is measured
  bool predict = false, measure = false;
  Scaling scaling = Scaling::kNone;
  std::vector<Varied> varied;
  std::vector<Point> points;  // in order; the last field varies fastest
};

// `text` is the spec's. Fields of fabric.simulated are for predictions alone, those of other fabrics for measurements
// alone; but a prediction has the slowed-down links of fabric.in_memory, and on "this-machine" the links of the fabric
// that is measured. Nothing is traced unless `sets` say otherwise. Refuses unknown fields, values that a field cannot
// take, fields given twice, `fixed` fields that vary, too many points, and points that are all wrong.
absl::StatusOr<Points> PointsOf(const std::string& text, const Asked& asked);

// The micro-batch under strong scaling: global_batch / (dp * micro_batches). Refuses what does not divide, with the
// nearest global batches that do. dp and micro_batches are at least 1.
absl::StatusOr<int64_t> StrongMicroBatch(int64_t global_batch, int64_t dp, int64_t micro_batches);

}  // namespace twofold::sweep
