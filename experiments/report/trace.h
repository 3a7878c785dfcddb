// The time line in Chrome's trace event format, which Perfetto (ui.perfetto.dev) opens.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "core/proto/report.pb.h"

namespace twofold {

// A process per rank ("rank 0"), a thread per stream ("compute" first, then by name), a complete event ("X")
// per span with its bytes, and a counter ("C") per memory sample. Times are microseconds, to the nanosecond,
// since the earliest rank's trace began. Spans whose times are not finite are left out; one that ends before
// it starts lasts 0.
std::string TraceJson(absl::Span<const report::RankRecord> records);

}  // namespace twofold
