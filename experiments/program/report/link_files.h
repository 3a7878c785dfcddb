// What links carried, as two files: links.csv, what each link carried of which operation, and link_loads.csv, when.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/run/link_loads.h"

namespace twofold {

inline constexpr char kLinks[] = "links.csv", kLinkLoads[] = "link_loads.csv";

// link,kind,links,bandwidth,operation,group,phases,bytes: a row for each operation on each link, the busiest link
// first. `links`: how many carry the same at the same time, the named one among them; bytes are those of one.
std::string LinksCsv(const LinkLoads& loads);
// link,start,seconds,bytes,load: a row for each bin in which the link carried something, `load` as a share of its
// bandwidth. Times are seconds since `origin`.
std::string LinkLoadsCsv(const LinkLoads& loads, double origin);

// Reads both; empty if there are none. Errors name the file and the line.
absl::StatusOr<LinkLoads> ReadLinkLoads(const std::string& folder);

}  // namespace twofold
