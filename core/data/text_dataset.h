// Text as bytes: the language-model dataset that needs no tokenizer. Token ids are the bytes themselves (U8,
// 0 to 255).
//
// For a folder, all regular files in it are read, at any depth, sorted by their path within the folder and
// concatenated. Symbolic links inside a folder are skipped, because they could repeat text or form cycles.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/data/dataset.h"

namespace twofold {

// The default for path "": the licence texts that Debian's base system ships.
inline constexpr std::string_view kDefaultTextPath = "/usr/share/common-licenses";

// Sample i: the input is bytes [i * sequence, (i + 1) * sequence), the target the same window one byte later; both U8
// [sequence]. A rest at the end that fills no sample is not used. `path`: a file, a folder or "". Errors (path not
// found, unreadable, too little text for one sample) name the file and what would be right.
absl::StatusOr<std::unique_ptr<Dataset>> MakeTextDataset(const std::string& path, int64_t sequence);

}  // namespace twofold
