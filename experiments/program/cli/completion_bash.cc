#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "experiments/program/cli/completion.h"

namespace twofold {
namespace {

// How the script completes a value.
std::string BashValue(const OptionText& option) {
  switch (CompletesBy(option)) {
    case Completes::kNothing: return ":";
    case Completes::kWords: return StrCat("words='", absl::StrJoin(option.words, " "), "'");
    case Completes::kFiles: return "files=f";
    case Completes::kFolders: return "files=d";
  }
  return ":";
}

// The words that lead from a command to one below it.
std::string BashSteps(const CommandText& root) {
  std::vector<std::string> steps;
  for (const CommandText* command : AllCommands(root))
    if (command != &root) steps.push_back(StrCat("'", command->path, "'"));
  std::string out = StrCat("      ", absl::StrJoin(steps, " | "), ") path=\"$path $word\" ;;\n");
  for (const CommandText* command : AllCommands(root))
    for (const OptionText& option : command->options)
      if (option.command_line) StrAppend(&out, "      '", command->path, " --') path=", root.name, " ;;\n");
  return out;
}

// Options whose value is the next word.
std::string BashValues(const CommandText& root) {
  std::string out;
  for (const CommandText* command : AllCommands(root)) {
    for (const OptionText& option : command->options) {
      if (option.argument || option.value.empty()) continue;
      std::vector<std::string> names;
      for (const std::string& name : option.names) names.push_back(StrCat("'", command->path, " ", name, "'"));
      StrAppend(&out, "      ", absl::StrJoin(names, " | "), ") ", BashValue(option), " ;;\n");
    }
  }
  return out;
}

std::string BashOptions(const CommandText& root) {
  std::string out;
  for (const CommandText* command : AllCommands(root)) {
    std::vector<std::string> names;
    for (const OptionText& option : command->options) {
      if (option.argument) continue;
      for (const std::string& name : option.names)
        names.push_back(StrCat(name, !option.value.empty() && name.starts_with("--") ? "=" : ""));
    }
    StrAppend(&out, "      '", command->path, "') words='", absl::StrJoin(names, " "), "' ;;\n");
  }
  return out;
}

// Commands, or values of arguments; of several arguments, those of all.
std::string BashArguments(const CommandText& root) {
  std::string out;
  for (const CommandText* command : AllCommands(root)) {
    std::vector<std::string> does;
    for (const OptionText& option : command->options)
      if (option.argument && !option.command_line && CompletesBy(option) != Completes::kNothing)
        does.push_back(BashValue(option));
    if (!command->commands.empty()) {
      does = {StrCat(
          "words='",
          absl::StrJoin(command->commands, " ", [](std::string* to, const CommandText& c) { StrAppend(to, c.name); }),
          "'")};
    }
    if (!does.empty()) StrAppend(&out, "      '", command->path, "') ", absl::StrJoin(does, "; "), " ;;\n");
  }
  return out;
}

}  // namespace

std::string BashCompletion(const CommandText& root) {
  const std::string& name = root.name;
  return StrCat("# Completion of ", name, " for bash, written by `", name, " completion bash`.\n_", name, "() {\n",
                R"(  local path=)", name, R"( word option='' words='' files='' before='' i
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}"
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word="${COMP_WORDS[i]}"
    case "$path $word" in
)",
                BashSteps(root), R"(    esac
  done
  # bash takes "=" as a word of its own, unless COMP_WORDBREAKS was changed
  if [[ $current == '=' ]]; then
    option=$previous current=''
  elif [[ $previous == '=' ]]; then
    option="${COMP_WORDS[COMP_CWORD - 2]}"
  elif [[ $current == --*=* ]]; then
    option="${current%%=*}" before="${current%%=*}=" current="${current#*=}"
  elif [[ $previous == -* && $previous != -- ]]; then
    option=$previous
  fi
  local is_value=yes
  if [[ -n $option ]]; then
    case "$path $option" in
)",
                BashValues(root), R"(      *) is_value='' ;;
    esac
  else
    is_value=''
  fi
  if [[ -n $is_value ]]; then
    :
  elif [[ $current == -* ]]; then
    case "$path" in
)",
                BashOptions(root), R"(    esac
  else
    case "$path" in
)",
                BashArguments(root), R"(    esac
  fi
  COMPREPLY=()
  if [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "$current")
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  elif [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -P "$before" "-$files" -- "$current")
  fi
  return 0
}
complete -F _)",
                name, " ", name, "\n");
}

}  // namespace twofold
