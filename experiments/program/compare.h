// Compares a prediction with a measurement: the error of each value, and the parts of the error in step time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

struct ComparedValue {
  enum Unit { kSeconds, kBytes, kPerSecond, kLoss } unit;
  std::string name;  // "step time", or the subject of the row: a collective, a kernel
  double predicted = 0, measured = 0;
  bool comparable = true;                                             // false: one side is a stand-in
  double error() const { return (predicted - measured) / measured; }  // share of the measured value
};

// Names of the step parts that have details.
inline constexpr char kKernelsPart[] = "kernels", kExposedPart[] = "exposed communication";

struct Comparison {
  std::string name, predicted_fabric, measured_fabric;
  // kinds of the two runs; two predictions or two measurements can be compared too
  bool first_predicted = true, second_predicted = false;
  bool judged() const { return first_predicted && !second_predicted; }
  std::vector<ComparedValue> values;  // step time, tokens, communication, memory (the highest rank's), loss
  // On rank 0. Each side's parts add up to its step time: kernels, exposed communication (the same as in `values`), the
  // host between kernels, the rest (how much longer the median step took than the traced ones). If not both runs were
  // traced: compute and exposed communication.
  std::vector<ComparedValue> step_parts;
  std::vector<ComparedValue> kernels;  // seconds per step, adding up to the first part; empty unless both were traced
  // likewise, adding up to the second part: by collective, waiting for other ranks, other waits; seconds per step
  std::vector<ComparedValue> exposed;
  std::vector<ComparedValue> collectives;      // seconds of one call, as rank 0 saw it
  double interval_low = 0, interval_high = 0;  // of the prediction
  // whether the measured median lies in it; absent unless judged, both did steps, and model, train and parallel are
  // equal
  std::optional<bool> inside_interval;
  report::Load at_calibration, at_run;  // the machine's load, if the reports have it
  std::vector<std::string> remarks;     // for the reader: differences between the runs, differences in memory
};

// The specs tell whether the two runs did the same work and whether losses are stand-ins.
Comparison Compare(const report::Report& predicted, const spec::Spec& predicted_spec, const report::Report& measured,
                   const spec::Spec& measured_spec);

}  // namespace twofold
