#include "experiments/program/cli/command_text.h"

#include <algorithm>
#include <string_view>

namespace twofold {

Completes CompletesBy(const OptionText& option) {
  if (!option.words.empty()) return Completes::kWords;
  if (option.value.starts_with("DIR")) return Completes::kFolders;
  for (const std::string_view name : {"FILE", "SPEC", "PROGRAM"})
    if (option.value == name) return Completes::kFiles;
  return Completes::kNothing;
}

std::vector<const CommandText*> AllCommands(const CommandText& root) {
  std::vector<const CommandText*> all = {&root};
  for (const CommandText& command : root.commands) {
    const std::vector<const CommandText*> below = AllCommands(command);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

std::string Brief(const std::string& help) {
  size_t end = help.size();
  for (const std::string_view details : {"; ", ". ", " (", ": "}) {
    if (const size_t at = help.find(details); at != std::string::npos && at > 12) end = std::min(end, at);
  }
  return help.substr(0, end);
}

}  // namespace twofold
