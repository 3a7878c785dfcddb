// What a bench found: the table of nccl-tests for people, JSON and CSV for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/run/fabric.h"
#include "experiments/program/bench/measure.h"
#include "experiments/program/bench/sizes.h"

namespace twofold::bench {

// What ran on what.
struct Bench {
  Request request;
  Sweep sweep;
  std::string fabric, cluster, library, algorithm, protocol;  // "" where the fabric (the last: the library) has none; what was asked for
  std::string device;                                // "cpu", "cuda"; "": the cluster says
  bool predicted = false;
  bool rounded = false;  // sizes of the sweep that are no whole elements on every rank were rounded down or left out
  int ranks = 0;
  std::vector<std::string> notes;
  std::string error;  // why rows are missing; "": none is
  std::vector<Row> rows;
};

// Which algorithm and protocol each row ran, of what a prediction's fabric says of all calls; and the library.
void NameWhatRan(const std::vector<RunResult::Ran>& ran, Bench& bench);

// GB/s, 1e9 bytes a second. Absent where no time passed (one rank alone).
std::optional<double> AlgorithmBandwidth(const Row& row, const Timing& timing);
std::optional<double> BusBandwidth(const Bench& bench, const Row& row, const Timing& timing);
// Mean of all bus bandwidths, out of place and in place; absent where there is none.
std::optional<double> AverageBusBandwidth(const Bench& bench);
// Wrong elements of all rows; absent where none was checked.
std::optional<int64_t> WrongValues(const Bench& bench);

std::string_view NcclTypeName(DType dtype);        // "float", "bfloat16", ...
std::string_view NcclReduceName(const Request& r); // "sum", "prod", ...; "none" where nothing is reduced

std::string HeaderText(const Bench& bench);  // lines that begin with '#'
std::string RowsText(const Bench& bench);
std::string FooterText(const Bench& bench);
// Keys of rows are those of nccl-tests' JSON; times in microseconds, null for what there is not.
std::string JsonText(const Bench& bench);
std::string CsvText(const Bench& bench);  // a line of names, then a line a row; empty for what there is not

}  // namespace twofold::bench
