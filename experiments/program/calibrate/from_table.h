// `twofold calibrate --from=TABLE --gpu=DEVICE --out=FILE`: constants of kernel laws from a table of measured times.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace twofold::calibrate {

struct FromTable {
  std::string table;   // .csv or .csv.gz; its columns say which law it is for (docs/gpus.md)
  std::string gpu;     // a device of the catalogue, or the path of a device's .textproto
  std::string column;  // columns of times, such as us_vllm; several, separated by commas: their geometric mean
  std::string dtype;   // bf16, fp8 or fp8_block; empty: bf16
  std::string out;     // the device's .textproto to write
  bool json = false;   // print the device as JSON
};

// Writes the device with the fitted law instead of one of the same type and column, or added to the others. Prints the
// errors of the rows left out of the fit to stdout; or the device, which has them, as JSON.
absl::Status CalibrateFrom(const FromTable& options);

}  // namespace twofold::calibrate
