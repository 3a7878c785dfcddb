// What subcommands write, and where it goes: a file, or stdout by "" or "-".
#pragma once

#include <string>

#include "absl/status/status.h"
#include "core/base/units.h"

namespace twofold::topology {

absl::Status CheckOut(const std::string& out);  // that --out=`out` can be written, before anything is done
// Names the file on stdout, unless `quiet`.
absl::Status Write(const std::string& path, const std::string& text, bool quiet = false);

std::string RateShort(BytesPerSecond rate);  // "400 GB/s", "1.8 TB/s"

}  // namespace twofold::topology
