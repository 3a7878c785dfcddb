// The figures of a sweep's points, and what they say about scaling.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/proto/report.pb.h"
#include "experiments/program/sweep/points.h"

namespace twofold::sweep {

// What one side of a point, its prediction or its measurements, came to. Without figures, `why` says the reason.
struct Figures {
  bool known = false;     // whether there are figures
  bool foretold = false;  // no figures, because it is predicted to run out of memory or to hang
  std::string why;
  std::vector<double> runs;  // of each measurement: its median step time, in seconds
  // Step time, in seconds: the median of the runs, and their extremes. Of a single run: its own interval
  double seconds = 0, low = 0, high = 0;
  double items_per_second = 0;     // tokens, or samples where a sample is not a sequence
  double exposed_seconds = 0;      // exposed communication per step, median of the runs
  double mfu = 0;                  // 0: the devices' peak is not known
  int64_t peak_bytes = 0;          // of the rank that uses most; of another framework, what it takes of the device
  double taken = 0;                // the largest share of time by which other work delayed a run
  std::vector<std::string> notes;  // of the first report: what readers must know to trust the figures
  // Against the point of the same sweep with the fewest ranks that differs in the layout alone. Throughput over its
  // throughput, and that per rank; 0: there is no such point
  double speed_up = 0, efficiency = 0;
};

// `reports`: at least one, all of the same spec. The first that failed decides.
Figures FiguresOf(std::span<const report::Report> reports);
Figures NoFigures(std::string why, bool foretold = false);

struct Row {
  std::vector<std::string> values;                       // of each varied field
  int64_t ranks = 0, global_batch = 0, micro_batch = 0;  // 0: the point has no valid spec
  std::optional<Figures> predicted, measured;            // absent: not asked for
  // (predicted - measured) / measured, of step times; absent: not both are known
  std::optional<double> error() const;
};

struct Results {
  std::string name, fabric;
  Scaling scaling = Scaling::kNone;
  bool predict = false, measure = false;
  std::vector<Varied> varied;
  std::vector<Row> rows;
  bool different_ranks() const;  // so that there is scaling to speak of
};

// Rows without figures yet, in the order of the points.
Results ResultsOf(const Points& points);
// Fills in speed-up and efficiency.
void Scale(Results& results);

}  // namespace twofold::sweep
