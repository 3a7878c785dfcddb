// A run's time line in Perfetto's own format, for ui.perfetto.dev and its trace processor.
#pragma once

#include <string>

#include "experiments/program/pictures/run_data.h"

namespace twofold::pictures {

// A perfetto.protos.Trace (perfetto.proto), in a gzip file, which Perfetto opens as it is. One process per rank, one
// track per stream ("compute" first), one slice per span with its class of work as category and bytes, waiting_us,
// exposed_us, label, stage, micro_batch and shape as arguments, where it has them. Counters of memory in bytes: one
// per category that is ever in use, and what the allocator has reserved; and of what links carry, in bytes per second.
// Flows lead from sends to the receives of the same message, among the ranks that are traced. Spans that overlap on one
// stream get further tracks of its name. The same run gives the same bytes.
std::string PerfettoTrace(const RunData& run);

// A span's place among those of RunData::lanes.
struct SpanPlace {
  size_t lane, span;
  bool operator==(const SpanPlace&) const = default;
};
struct Message {
  SpanPlace send, receive;
};
// Sends with the receives of the same message: of two ranks that differ in their pipeline stage alone, of one
// micro-batch and direction, and of the same size. Each receive is used once.
std::vector<Message> MessagesOf(const RunData& run);

}  // namespace twofold::pictures
