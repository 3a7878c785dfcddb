#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/strings.h"
#include "experiments/program/cli/completion.h"

namespace twofold {
namespace {

// In single quotes, inside the brackets or between the colons of a specification of _arguments.
std::string ZshEscaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ZshFunction(const CommandText& command) {
  return StrCat("_", absl::StrReplaceAll(command.path, {{" ", "_"}}));
}

std::string ZshValue(const OptionText& option) {
  switch (CompletesBy(option)) {
    case Completes::kNothing: return " ";
    case Completes::kWords: return StrCat("(", absl::StrJoin(option.words, " "), ")");
    case Completes::kFiles: return "_files";
    case Completes::kFolders: return "_files -/";
  }
  return " ";
}

std::string ZshOption(const OptionText& option, const CommandText& root) {
  const std::string value = option.value.empty() ? "" : StrCat(":", ZshEscaped(option.value), ":", ZshValue(option));
  if (option.command_line) {  // the words before it are left out, so that the program's name stands first again
    return StrCat("'*:::", option.names[0], ":{ [[ $words[1] == -- ]] && { shift words; (( CURRENT-- )); }; words=(",
                  root.name, " $words); (( CURRENT++ )); _", root.name, " }'");
  }
  if (option.argument)
    return StrCat("'",
                  option.repeatable ? "*"
                  : option.required ? ""
                                    : ":",
                  ":", option.names[0], ":", ZshValue(option), "'");
  const std::string help = StrCat("'[", ZshEscaped(Brief(option.help)), "]", value, "'");
  std::vector<std::string> names;
  for (const std::string& name : option.names)
    names.push_back(StrCat(name, option.value.empty() ? "" : name.starts_with("--") ? "=" : "+"));
  const std::string again = option.repeatable         ? "'*'"
                            : option.names.size() > 1 ? StrCat("'(", absl::StrJoin(option.names, " "), ")'")
                                                      : "";
  if (names.size() > 1) return StrCat(again, "{", absl::StrJoin(names, ","), "}", help);
  return StrCat(again, names[0], help);
}

std::string ZshCommand(const CommandText& command, const CommandText& root) {
  std::string out = StrCat(ZshFunction(command), "() {\n");
  std::string arguments;
  for (const OptionText& option : command.options) StrAppend(&arguments, " \\\n    ", ZshOption(option, root));
  if (command.commands.empty()) return StrCat(out, "  _arguments -s :", arguments, "\n}\n");
  StrAppend(&out, "  local curcontext=$curcontext state line\n  typeset -A opt_args\n  _arguments -C :", arguments,
            " \\\n    '1: :->command' \\\n    '*:: :->words'\n  case $state in\n    command)\n",
            "      local -a commands=(\n");
  for (const CommandText& choice : command.commands)
    StrAppend(&out, "        '", choice.name, ":", ZshEscaped(choice.summary), "'\n");
  StrAppend(&out, "      )\n      _describe command commands\n      ;;\n    words)\n      case $line[1] in\n");
  for (const CommandText& choice : command.commands)
    StrAppend(&out, "        ", choice.name, ") ", ZshFunction(choice), " ;;\n");
  return StrCat(out, "      esac\n      ;;\n  esac\n}\n");
}

}  // namespace

std::string ZshCompletion(const CommandText& root) {
  std::string out = StrCat("#compdef ", root.name, "\n# Completion of ", root.name, " for zsh, written by `", root.name,
                           " completion zsh`. Name the file _", root.name, ", in a folder of $fpath.\n");
  for (const CommandText* command : AllCommands(root)) StrAppend(&out, ZshCommand(*command, root));
  return StrCat(out, "if [[ $funcstack[1] == _", root.name, " ]]; then\n  _", root.name,
                " \"$@\"  # the file is the function's body, when it is loaded by its name\nelse\n  compdef _",
                root.name, " ", root.name, "\nfi\n");
}

}  // namespace twofold
