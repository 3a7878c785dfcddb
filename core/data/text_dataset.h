// Text as bytes: the language-model dataset that needs no tokenizer. Token ids are the bytes themselves (U8,
// 0 to 255).
//
// A folder is read as all regular files in it, at any depth, sorted by their path within the folder and put
// one after the other. Symbolic links inside a folder are skipped: they would repeat text, or never end.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/data/dataset.h"

namespace twofold {

// What the path "" stands for: the licence texts that Debian's base system ships.
inline constexpr std::string_view kDefaultTextPath = "/usr/share/common-licenses";

// Sample i: the input is bytes [i * sequence, (i + 1) * sequence), the target the same window one byte later;
// both U8 [sequence]. What is left at the end and fills no sample is not used. `path`: a file, a folder or
// "". Errors name the file and what would be right: nothing there, unreadable, too little text for one
// sample.
absl::StatusOr<std::unique_ptr<Dataset>> MakeTextDataset(const std::string& path, int64_t sequence);

}  // namespace twofold
