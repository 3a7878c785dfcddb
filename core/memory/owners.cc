#include "core/memory/owners.h"

#include "core/base/strings.h"

namespace twofold {

int Owners::Number(std::string_view name) {
  if (name.empty()) return 0;
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  names_.emplace_back(name);
  return numbers_[names_.back()] = static_cast<int>(names_.size()) - 1;
}

Owners::Id Owners::Now(Category category, const TensorKind& kind) {
  return {.pass = now_.pass,
          .module = now_.module,
          .tensor = kind.name.empty() ? now_.tensor : Number(kind.name),
          .category = category,
          .type = kind.type,
          .extents = {kind.extents.begin(), kind.extents.end()}};
}

Owners::Owner Owners::owner(const Id& id) const {
  const auto name = [this](int number) { return names_.at(static_cast<size_t>(number)); };
  Owner owner{.pass = name(id.pass), .module = name(id.module), .tensor = name(id.tensor), .category = id.category};
  if (id.type.empty()) return owner;
  StrAppend(&owner.tensor, owner.tensor.empty() ? "" : " ", std::string(id.type), "[");
  for (size_t i = 0; i < id.extents.size(); ++i) StrAppend(&owner.tensor, i == 0 ? "" : ", ", id.extents[i]);
  owner.tensor += "]";
  return owner;
}

OwnerScope::OwnerScope(Owners& owners, const Names& names) : owners_(owners), before_(owners.now_) {
  if (names.pass.data() != nullptr) owners.now_.pass = owners.Number(names.pass);
  if (names.module.data() != nullptr) owners.now_.module = owners.Number(names.module);
  owners.now_.tensor = owners.Number(names.tensor);
}

}  // namespace twofold
