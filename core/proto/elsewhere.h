// Where a field is that was looked for in the wrong block, or by a name that others give it.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>
#include <vector>

namespace twofold {

// The paths at which blocks below `root` have a field of exactly this name, or else of the fields that others call so
// (other_names.h). Empty if there are none, or too many to help.
std::vector<std::string> PathsElsewhere(const google::protobuf::Descriptor& root, std::string_view name);

// These in words: "; there is train.micro_batch" or "; there are model.gpt.sequence and model.llama.sequence". Empty if
// there are none.
std::string Elsewhere(const google::protobuf::Descriptor& root, std::string_view name);

}  // namespace twofold
