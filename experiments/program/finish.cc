#include "experiments/program/finish.h"

#include <utility>

#include "experiments/program/assemble.h"
#include "experiments/program/device_facts.h"
#include "experiments/program/framework.h"
#include "experiments/program/spec/spec.h"

namespace twofold {

Finished Finish(const spec::Spec& spec, const Fabric& fabric, const TrainingData& data, RunResult result) {
  absl::StatusOr<RankRecords> records = ReadRecords(spec, result);
  if (!records.ok()) {
    result.status.Update(records.status());
    result.notes.emplace_back(records.status().message());
    records.emplace();
  }
  const DeviceFacts device = FactsOfDevice(spec);
  report::Report report = Assemble(spec,
                                   {.fabric = fabric.name(),
                                    .predicted = fabric.predicted(),
                                    .world_size = static_cast<int>(WorldSize(spec)),
                                    .training_samples = data.training->size(),
                                    .device = device.name,
                                    .peak_flops_per_second = device.peak_flops_per_second,
                                    .calibration = device.calibration},
                                   result, *records);
  if (report.predicted()) AddFramework(spec, data.samples(), report);
  return {std::move(report), *std::move(records)};
}

}  // namespace twofold
