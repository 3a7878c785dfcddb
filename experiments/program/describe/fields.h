// All fields of the spec with what is known of them. Meanings are the comments of core/proto/spec.proto, types and
// defaults its declarations, ranges what validation holds values against: there is no second list of them.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>
#include <vector>

#include "experiments/program/spec/problems/problems.h"

namespace twofold {

struct NamedValue {
  std::string name, meaning;
};

struct SpecField {
  std::string path;  // "train.optimizer.adamw.lr", as --set takes it; of a list of blocks: "train.elastic.events.step"
  const google::protobuf::FieldDescriptor* field = nullptr;
  std::string meaning;                // a text without line breaks; never empty
  std::string block_meaning;          // of a block: what its type says, if its own meaning is another
  std::vector<NamedValue> values;     // of an enum field: those that it takes, aliases included
  std::vector<std::string> excludes;  // paths of which at most one may be given, this one included; may be empty
  Bounds range;                       // bounds that do not depend on other fields
};

// In the order of the file, each block before its fields. Takes some milliseconds: ranges are found by validating.
std::vector<SpecField> SpecFields();

// "whole number", "one of F32, F64", "block", "list of blocks".
std::string TypeText(const SpecField& field);
// As a spec states it: "20", "\"auto\"", "F32"; "" if the field has no constant default.
std::string DefaultText(const google::protobuf::FieldDescriptor& field);
// "from 1 to 1048576", "above 0", "from 0 to below 1"; "" if no bound is known.
std::string RangeText(const Bounds& range);

// The text of core/proto/spec.proto as it was when this program was built.
std::string_view SpecProto();

}  // namespace twofold
