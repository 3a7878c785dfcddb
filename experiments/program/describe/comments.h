// The comments of core/proto/spec.proto, which are the meanings of fields, blocks and values.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace twofold {

// Read from what protoc made of spec.proto when the program was built. Arguments are descriptors of the generated code,
// which have no comments. A comment stands before what it is about or behind it; its lines are joined, and headings
// ("---- Data ----") are left out.
class SpecComments {
 public:
  SpecComments();
  std::string Of(const google::protobuf::Descriptor& block) const;
  std::string Of(const google::protobuf::FieldDescriptor& field) const;
  std::string Of(const google::protobuf::EnumDescriptor& type) const;
  std::string Of(const google::protobuf::EnumValueDescriptor& value) const;

 private:
  google::protobuf::DescriptorPool pool_;
};

}  // namespace twofold
