// `twofold calibrate --from=TABLE --spec=SPEC --framework-out=FILE`: a framework's profile, from a table of measured
// training steps.
//
// The table has a row for each run: seconds (of a step), and a column for each field in which the runs differ, named by
// the field's path, as --set takes it: parallel.tp, train.micro_batch, model.preset. All else stands in the spec, which
// names the nearest framework and a cluster of GPUs. Fitted are
//     time.launch_us, with those of time.kernels    host time of an operation         all rows
//     time.communication_launch_us                  host time of a communication      rows of several ranks
//     time.families                                 factors of products, attention    all rows
//                                                   and all other kernels
// Each prediction is `twofold predict`'s own, on the spec's cluster: times of kernels and links stay those of the
// device and of the network. A fifth of the rows, by hash, takes no part in the fit; their errors are printed, and
// their median stands in the profile's source. The fit makes
// |log(predicted / measured)| small and, by little, what constants change by, so that what the table leaves open stays
// where it was (search.h, FitResiduals).
#pragma once

#include <string>

#include "absl/status/status.h"

namespace twofold::calibrate {

struct FromRuns {
  std::string table;  // .csv or .csv.gz
  std::string spec;   // .textproto or .json
  std::string out;    // the framework's .textproto to write
  bool json = false;  // print JSON
};

// Writes the profile. Prints the constants, and the errors before and after, to stdout. Refuses tables of fewer than 10
// rows, rows that the spec cannot run, and specs without a framework, before anything is fitted.
absl::Status CalibrateRuns(const FromRuns& options);

}  // namespace twofold::calibrate
