// A prediction laid beside a measurement: what is how far off, and what the error in step time is made of.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

struct ComparedValue {
  enum Unit { kSeconds, kBytes, kPerSecond, kLoss } unit;
  std::string name;  // "step time", or what the row is about: a collective, a kernel
  double predicted = 0, measured = 0;
  bool comparable = true;                                             // false: one side is a stand-in
  double error() const { return (predicted - measured) / measured; }  // share of the measured value
};

struct Comparison {
  std::string name, predicted_fabric, measured_fabric;
  bool first_predicted = true, second_predicted = false;  // what the two runs are; two predictions or two measurements can be laid side by side, too
  bool judged() const { return first_predicted && !second_predicted; }
  std::vector<ComparedValue> values;  // step time, tokens, communication, memory (the highest rank's), loss
  // On rank 0, each side's add up to its step time: kernels, exposed communication (the same as in `values`), the host between
  // kernels, the rest (what the median step took beyond the traced ones). Of runs that were not both traced: compute and
  // exposed communication.
  std::vector<ComparedValue> step_parts;
  std::vector<ComparedValue> kernels;  // seconds a step: they add up to the first part; empty unless both were traced
  std::vector<ComparedValue> exposed;  // by collective, waiting for other ranks and others, seconds a step: likewise, to the second part
  std::vector<ComparedValue> collectives;  // seconds of one call, as rank 0 saw it
  double interval_low = 0, interval_high = 0;  // the prediction's
  std::optional<bool> inside_interval;  // whether the measured median lies in it; absent unless judged, of the same model, train and parallel, and both did steps
  std::vector<std::string> remarks;  // what a reader must know: runs that differ, memory that differs
};

// The specs say whether the two runs did the same and whether losses are stand-ins.
Comparison Compare(const report::Report& predicted, const spec::Spec& predicted_spec,
                   const report::Report& measured, const spec::Spec& measured_spec);

// Of one prediction with one measurement or more, which are columns of the table. As JSON: one object, or an array of them.
std::string ComparisonText(std::span<const Comparison> comparisons);
nlohmann::ordered_json ComparisonJson(std::span<const Comparison> comparisons);

}  // namespace twofold
