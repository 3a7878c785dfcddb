// Reads a run's folder, as `twofold run` writes it, for drawing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "core/run/link_loads.h"

namespace twofold::pictures {

struct DrawnSpan {
  std::string name;
  double start, end;  // seconds since the trace began
  int64_t bytes;
  double waiting = 0;  // part of the span, at its start, spent waiting for others, if known
  double exposed = 0;  // how long the compute stream stood still for it
  std::string label;   // the pass of a pipeline's schedule that it belongs to: "F3"; "": none
  std::string shape;   // of a kernel: "512 x 768 x 768, bf16"; "": unknown
};
struct Lane {  // a stream of a rank, spans by start
  int rank;
  std::string stream;
  std::vector<DrawnSpan> spans;
};
struct MemoryLine {                              // of one rank
  std::vector<double> time;                      // seconds, since the trace began
  std::vector<std::vector<double>> by_category;  // bytes, in the order of RunData::categories
  std::vector<double> reserved;
};

struct RunData {
  std::string folder;
  report::Report report;
  spec::Parallel parallel;                // the layout of the run
  std::vector<Lane> lanes;                // by rank, compute first
  std::map<int, std::string> rank_names;  // of ranks with lanes: "rank 0 and 3 like it"
  std::vector<std::string> categories;
  std::map<int, MemoryLine> memory;            // by rank
  std::map<int, report::MemoryBlocks> blocks;  // likewise: what it consists of, of ranks that kept it
  LinkLoads links;                             // of predictions; times as in lanes
  double trace_end = 0;
  std::string apart;  // what tells it from others with the same title; see TellApart

  // "predicted (simulated)", "measured (in_memory), ddp-4"
  std::string Title() const;
};

// Runs of one kind and fabric get the names of their folders into their titles; the whole paths if names are equal.
void TellApart(std::vector<RunData>& runs);

// trace.json, memory.csv, memory_blocks.json.gz, links.csv, link_loads.csv, network.json.gz and spec.textproto may be
// missing (then nothing of them is drawn); report.json must be there. Errors name the file and what is wrong in it.
absl::StatusOr<RunData> ReadRun(const std::string& folder);

}  // namespace twofold::pictures
