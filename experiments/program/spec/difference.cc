#include "experiments/program/spec/difference.h"

#include <google/protobuf/util/message_differencer.h>

namespace twofold {

std::vector<std::string> DifferingBlocks(const spec::Spec& a, const spec::Spec& b) {
  google::protobuf::util::MessageDifferencer differencer;
  differencer.IgnoreField(spec::Checkpoint::descriptor()->FindFieldByName("path"));
  std::vector<std::string> differ;
  const google::protobuf::Descriptor& spec = *spec::Spec::descriptor();
  for (int i = 0; i < spec.field_count(); ++i) {
    const std::vector<const google::protobuf::FieldDescriptor*> block = {spec.field(i)};
    if (!differencer.CompareWithFields(a, b, block, block)) differ.push_back(spec.field(i)->name());
  }
  return differ;
}

}  // namespace twofold
