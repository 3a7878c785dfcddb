// All that `twofold memory` says about one spec.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/program/memory_advice.h"
#include "experiments/program/memory_table.h"

namespace twofold {

struct MemoryQuestion {
  std::string file, fabric;         // of the spec; "": the spec's own
  std::vector<std::string> sets;    // as --set takes them
  std::optional<std::string> text;  // of the spec, where it is no file; `file` begins errors then
};

// INTERNAL if the prediction fails; all other errors are the input's.
absl::StatusOr<MemoryStory> TellMemory(const MemoryQuestion& asked);
// For a story that does not fit. Step times come from processes of this program.
MemoryAdvice AdviseOn(const MemoryQuestion& asked, const MemoryStory& story);

}  // namespace twofold
