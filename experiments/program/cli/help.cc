#include "experiments/program/cli/help.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "experiments/program/cli/wrap.h"

namespace twofold {
namespace {

// "  NAMES    what it is", with the second part in its column; below the names if these are too long.
std::string Row(const std::string& names, const std::string& help, size_t width) {
  constexpr size_t kColumn = 26;
  const size_t column = width < 60 ? 6 : kColumn;
  std::string left = StrCat("  ", names);
  if (help.empty()) return left + "\n";
  if (left.size() + 2 > column)
    StrAppend(&left, "\n", std::string(column, ' '));
  else
    left.resize(column, ' ');
  return StrCat(left, Filled(help, width, column, column), "\n");
}

template <class T>
std::vector<std::string> GroupsOf(const std::vector<T>& members) {
  std::vector<std::string> groups;
  for (const T& member : members)
    if (std::find(groups.begin(), groups.end(), member.group) == groups.end()) groups.push_back(member.group);
  return groups;
}

}  // namespace

std::vector<std::string> OptionGroups(const CommandText& command) { return GroupsOf(command.options); }
std::vector<std::string> CommandGroups(const CommandText& command) { return GroupsOf(command.commands); }

std::string OptionNames(const OptionText& option) {
  const std::string value = option.value.empty() || option.argument ? "" : option.value;
  const bool is_long = option.LongName().starts_with("--");
  return StrCat(absl::StrJoin(option.names, ", "),
                value.empty() ? ""
                : is_long     ? "="
                              : " ",
                value, option.argument && option.repeatable ? "..." : "");
}

std::string OptionHelp(const OptionText& option) {
  std::string help = option.help;
  if (option.required && !option.argument) StrAppend(&help, " (required)");
  if (!option.fallback.empty()) StrAppend(&help, " (default: ", option.fallback, ")");
  return help;
}

std::string UsageText(const CommandText& command) {
  std::string usage = StrCat(command.path, " [OPTIONS]");
  for (const OptionText& option : command.options) {
    if (!option.argument) continue;
    const std::string name = StrCat(option.names[0], option.repeatable ? "..." : "");
    StrAppend(&usage, " ", option.command_line ? "-- " : "", option.required ? name : StrCat("[", name, "]"));
  }
  if (!command.commands.empty()) StrAppend(&usage, " COMMAND");
  return usage;
}

std::string HelpText(const CommandText& command, size_t width) {
  std::string out = StrCat(Filled(command.summary, width, 0, 0), "\n\nUsage: ", UsageText(command), "\n");
  for (const std::string& group : CommandGroups(command)) {
    StrAppend(&out, "\n", group, ":\n");
    for (const CommandText& choice : command.commands)
      if (choice.group == group) StrAppend(&out, Row(choice.name, choice.summary, width));
  }
  for (const std::string& group : OptionGroups(command)) {
    StrAppend(&out, "\n", group, ":\n");
    for (const OptionText& option : command.options)
      if (option.group == group) StrAppend(&out, Row(OptionNames(option), OptionHelp(option), width));
  }
  if (!command.footer.empty()) StrAppend(&out, "\n", Wrapped(command.footer, width));
  return out;
}

}  // namespace twofold
