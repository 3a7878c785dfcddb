// What a run's ranks compute on, as the report states it.
#pragma once

#include <string>

#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

struct DeviceFacts {
  std::string name;
  double peak_flops_per_second = 0;  // of one rank; 0: unknown
  report::Load calibration = {};     // while kernels that a prediction rests on were calibrated; no fields: not known, or not calibrated
};

// `spec` is resolved and its fabric has been made, so its cluster is known. Of a GPU the peak is the data
// sheet's, for the parameters' element type, and 0 of one that the catalogue does not know; of the CPU of this machine it is the best rate that calibration
// measured: of the profile that the spec names, else of the one at calibration's usual place, if there is
// one.
DeviceFacts FactsOfDevice(const spec::Spec& spec);

}  // namespace twofold
