// The device that a run's ranks compute on, as the report states it.
#pragma once

#include <string>

#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

struct DeviceFacts {
  std::string name;
  double peak_flops_per_second = 0;  // of one rank; 0: unknown
  // the load while the kernels of a prediction were calibrated; no fields: unknown or not calibrated
  report::Load calibration = {};
};

// `spec` is resolved and its fabric has been made, so its cluster is known. The peak of a GPU is the data sheet's, for
// the parameters' element type; 0 if the catalogue does not know the GPU. The peak of this machine's CPU is the best
// rate that calibration measured, from the profile that the spec names, else from the profile at calibration's usual
// place, if there is one.
DeviceFacts FactsOfDevice(const spec::Spec& spec);

}  // namespace twofold
