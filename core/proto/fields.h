// What a proto's description says about its fields, in words for error messages.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twofold {

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& message);
// Of an enum field, aliases included; of element types those alone that the field takes.
std::vector<std::string> ValueNames(const google::protobuf::FieldDescriptor& field);

// "a whole number", "one of SYMBOLIC, REAL", "a block { ... } of cluster, nodes": what may stand for the
// field.
std::string ExpectedValue(const google::protobuf::FieldDescriptor& field);

// Likewise with the bounds of the field's type, for a whole number that it cannot hold.
std::string ExpectedRange(const google::protobuf::FieldDescriptor& field);

// The field at the end of a path of names; null when there is none.
const google::protobuf::FieldDescriptor* FindField(const google::protobuf::Descriptor& root,
                                                   std::span<const std::string> path);

// "name: \"caf\xe9\": byte 3 is \xe9, which is not UTF-8": the first of a message's strings that is no printable text in UTF-8, by its
// path; "": all are.
std::string OddString(const google::protobuf::Message& message);

// A number as the user would write it: the shortest text that reads back as the same double.
std::string NumberText(double value);

}  // namespace twofold
