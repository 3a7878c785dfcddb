#include "core/proto/fabric_name.h"

namespace twofold {

std::string FabricName(const spec::Spec& spec) {
  const spec::Fabric& fabric = spec.fabric();
  const google::protobuf::OneofDescriptor* kind = fabric.GetDescriptor()->FindOneofByName("kind");
  const google::protobuf::FieldDescriptor* chosen = fabric.GetReflection()->GetOneofFieldDescriptor(fabric, kind);
  return chosen == nullptr ? "in_memory" : chosen->name();
}

}  // namespace twofold
