#include "core/proto/elsewhere.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "core/proto/other_names.h"

namespace twofold {
namespace {

using google::protobuf::Descriptor;

class Search {
 public:
  explicit Search(std::string_view name) : name_(name) {}

  // Blocks that contain themselves are not entered again.
  void In(const Descriptor& block, const std::string& path) {
    if (std::find(open_.begin(), open_.end(), &block) != open_.end()) return;
    open_.push_back(&block);
    for (int i = 0; i < block.field_count(); ++i) {
      const auto& field = *block.field(i);
      const std::string here = StrCat(path, path.empty() ? "" : ".", field.name());
      if (field.name() == name_) found_.push_back(here);
      if (field.message_type() != nullptr) In(*field.message_type(), here);
    }
    open_.pop_back();
  }
  const std::vector<std::string>& found() const { return found_; }

 private:
  std::string_view name_;
  std::vector<const Descriptor*> open_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> PathsElsewhere(const Descriptor& root, std::string_view name) {
  constexpr size_t kMost = 4;
  Search search(name);
  search.In(root, "");
  std::vector<std::string> found = search.found();
  if (found.empty()) {
    for (const OtherField& other : OtherFields()) {
      const std::vector<std::string> path = absl::StrSplit(std::string(other.path), '.');
      if (other.theirs == name && FindField(root, path) != nullptr) found.emplace_back(other.path);
    }
  }
  if (found.size() > kMost) found.clear();
  return found;
}

std::string Elsewhere(const Descriptor& root, std::string_view name) {
  const std::vector<std::string> found = PathsElsewhere(root, name);
  if (found.empty()) return "";
  std::string text = found.size() == 1 ? "; there is " : "; there are ";
  for (size_t i = 0; i < found.size(); ++i)
    StrAppend(&text, i == 0 ? "" : i + 1 == found.size() ? " and " : ", ", found[i]);
  return text;
}

}  // namespace twofold
