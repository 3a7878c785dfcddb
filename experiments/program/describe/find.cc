#include "experiments/program/describe/find.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "core/proto/elsewhere.h"
#include "core/proto/fields.h"
#include "core/proto/spec.pb.h"

namespace twofold {
namespace {

bool Has(const std::string& text, const std::string& lower) {
  return absl::StrContains(absl::AsciiStrToLower(text), lower);
}

bool Says(const SpecField& field, const std::string& lower) {
  return Has(field.meaning, lower) || Has(field.block_meaning, lower) ||
         std::any_of(field.values.begin(), field.values.end(),
                     [&](const NamedValue& value) { return Has(value.name, lower) || Has(value.meaning, lower); });
}

// Why the path does not exist: its first name that is wrong.
absl::Status NoSuchPath(const std::string& path) {
  const google::protobuf::Descriptor* block = spec::Spec::descriptor();
  std::string before;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(path, '.'))) {
    const auto* field = block->FindFieldByName(name);
    if (field == nullptr) {
      return InvalidArgument(Printable(path), ": \"", Printable(name), "\" is not a field",
                             before.empty() ? "" : StrCat(" of ", before), Suggestion(name, FieldNames(*block)),
                             Elsewhere(*spec::Spec::descriptor(), name));
    }
    StrAppend(&before, before.empty() ? "" : ".", name);
    block = field->message_type();
    if (block == nullptr) return InvalidArgument(Printable(path), ": ", before, " is not a block; end the path there");
  }
  return InvalidArgument(Printable(path), ": is not a field");
}

}  // namespace

absl::StatusOr<FoundFields> FindFields(const std::vector<SpecField>& fields, const std::string& word) {
  FoundFields found;
  const std::string below = StrCat(word, ".");
  for (const SpecField& field : fields) {
    if (field.path == word || field.path.starts_with(below)) found.fields.push_back(&field);
  }
  found.by_path = !found.fields.empty();
  if (found.by_path) return found;
  const std::string lower = absl::AsciiStrToLower(word);
  const auto named = [&](const SpecField& field) { return Has(field.field->name(), lower); };
  for (const SpecField& field : fields)
    if (named(field)) found.fields.push_back(&field);
  for (const SpecField& field : fields)
    if (!named(field) && Says(field, lower)) found.fields.push_back(&field);
  if (!word.empty() && !found.fields.empty()) return found;
  if (absl::StrContains(word, ".")) return NoSuchPath(word);
  std::vector<std::string> names;
  for (const SpecField& field : fields) names.push_back(field.field->name());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string near = Suggestion(word, names);  // without its list of all names
  near = near.substr(0, near.starts_with("; known:") ? 0 : near.find(" (known:"));
  return InvalidArgument("\"", Printable(word), "\" is in no name and no meaning of the spec's fields", near,
                         " (`twofold spec` prints all)");
}

}  // namespace twofold
