// Describes a proto's fields in words, for error messages.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <span>
#include <string>
#include <vector>

namespace twofold {

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& message);
// The values of an enum field, aliases included. For element types only those that the field accepts.
std::vector<std::string> ValueNames(const google::protobuf::FieldDescriptor& field);

// What the field accepts: "a whole number", "one of SYMBOLIC, REAL", "a block { ... } of cluster, nodes".
std::string ExpectedValue(const google::protobuf::FieldDescriptor& field);

// Likewise, with the bounds of the field's type: for a whole number out of range.
std::string ExpectedRange(const google::protobuf::FieldDescriptor& field);

// The field at the end of a path of names. Null if there is none.
const google::protobuf::FieldDescriptor* FindField(const google::protobuf::Descriptor& root,
                                                   std::span<const std::string> path);

// The first of a message's strings that is not printable UTF-8 text, with its path: "name: \"caf\xe9\": byte 3 is \xe9,
// which is not UTF-8". "" if there is none.
std::string OddString(const google::protobuf::Message& message);

// A number as the user would write it: the shortest text that reads back as the same double.
std::string NumberText(double value);

}  // namespace twofold
