#include "experiments/program/describe/comments.h"

#include <google/protobuf/descriptor.pb.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "core/base/strings.h"
#include "experiments/program/describe/spec_descriptor.h"

namespace twofold {
namespace {

namespace pb = google::protobuf;

std::string Joined(const std::string& comment) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(comment, '\n')) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (!text.empty() && text.substr(0, 4) != "----") lines.emplace_back(text);
  }
  return absl::StrJoin(lines, " ");
}

template <class D>
std::string Comment(const D* descriptor) {
  pb::SourceLocation at;
  if (descriptor == nullptr || !descriptor->GetSourceLocation(&at)) return "";
  const std::string before = Joined(at.leading_comments), behind = Joined(at.trailing_comments);
  return StrCat(before, before.empty() || behind.empty() ? "" : " ", behind);
}

}  // namespace

SpecComments::SpecComments() {
  pb::FileDescriptorSet files;
  TWOFOLD_CHECK(files.ParseFromArray(kSpecDescriptor.data(), static_cast<int>(kSpecDescriptor.size())),
                "protoc wrote what was embedded");
  for (const pb::FileDescriptorProto& file : files.file()) TWOFOLD_CHECK(pool_.BuildFile(file) != nullptr, file.name());
}

std::string SpecComments::Of(const pb::Descriptor& block) const {
  return Comment(pool_.FindMessageTypeByName(block.full_name()));
}
std::string SpecComments::Of(const pb::FieldDescriptor& field) const {
  return Comment(pool_.FindFieldByName(field.full_name()));
}
std::string SpecComments::Of(const pb::EnumDescriptor& type) const {
  return Comment(pool_.FindEnumTypeByName(type.full_name()));
}
std::string SpecComments::Of(const pb::EnumValueDescriptor& value) const {
  return Comment(pool_.FindEnumValueByName(value.full_name()));
}

}  // namespace twofold
