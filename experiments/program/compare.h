// A prediction laid beside a measurement: what is how far off, and what the error in step time is made of.
#pragma once

#include <nlohmann/json.hpp>
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
  std::vector<ComparedValue> values;  // step time, tokens, communication, memory (the highest rank's), loss
  std::vector<ComparedValue> step_parts;   // compute, exposed communication: they add up to the step time
  std::vector<ComparedValue> collectives;  // seconds of one call, as rank 0 saw it
  std::vector<ComparedValue>
      kernels;  // seconds a step on rank 0's compute stream; empty unless both were traced
  double interval_low = 0, interval_high = 0;  // the prediction's
  bool inside_interval = false;                // the measured median lies in it
  std::vector<std::string> remarks;  // what a reader must know: runs that differ, memory that differs
};

// The specs say whether the two runs did the same and whether losses are stand-ins.
Comparison Compare(const report::Report& predicted, const spec::Spec& predicted_spec,
                   const report::Report& measured, const spec::Spec& measured_spec);

// Of one prediction with one measurement or more, which are columns of the table. As JSON: one object, or an array of them.
std::string ComparisonText(std::span<const Comparison> comparisons);
nlohmann::ordered_json ComparisonJson(std::span<const Comparison> comparisons);

}  // namespace twofold
