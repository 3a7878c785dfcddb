// Results of a bench: the nccl-tests table for people, JSON and CSV for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/run/fabric.h"
#include "experiments/program/bench/measure.h"
#include "experiments/program/bench/sizes.h"

namespace twofold::bench {

// The setup of a bench, and its results.
struct Bench {
  Request request;
  Sweep sweep;
  // "" if the fabric (algorithm and protocol: the library) has none; as requested
  std::string fabric, cluster, library, algorithm, protocol;
  std::string device;  // "cpu", "cuda"; "": defined by the cluster
  bool predicted = false;
  bool rounded = false;  // some sizes of the sweep are not whole elements on every rank: rounded down or left out
  int ranks = 0;
  std::vector<std::string> notes;
  std::string error;  // why rows are missing; "": none is missing
  std::vector<Row> rows;
};

// Fills in the library, and the algorithm and protocol of each row, from what a predicting fabric reports of all calls.
void NameWhatRan(const std::vector<RunResult::Ran>& ran, Bench& bench);

// GB/s, 1e9 bytes per second. Absent if no time passed (a single rank).
std::optional<double> AlgorithmBandwidth(const Row& row, const Timing& timing);
std::optional<double> BusBandwidth(const Bench& bench, const Row& row, const Timing& timing);
// Mean of all bus bandwidths, out of place and in place; absent if there are none.
std::optional<double> AverageBusBandwidth(const Bench& bench);
// Wrong elements of all rows; absent if no row was checked.
std::optional<int64_t> WrongValues(const Bench& bench);

std::string_view NcclTypeName(DType dtype);         // "float", "bfloat16", ...
std::string_view NcclReduceName(const Request& r);  // "sum", "prod", ...; "none" for operations that do not reduce

// Lines that begin with '#'. `shown_notes`: as --notes says.
std::string HeaderText(const Bench& bench, const std::string& shown_notes = "short");
std::string RowsText(const Bench& bench);
std::string FooterText(const Bench& bench);
// Rows have the keys of nccl-tests' JSON; times in microseconds, null for absent values.
std::string JsonText(const Bench& bench);
std::string CsvText(const Bench& bench);  // a header line, then one line per row; absent values are empty

}  // namespace twofold::bench
