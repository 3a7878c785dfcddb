#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/strings.h"
#include "experiments/program/cli/completion.h"

namespace twofold {
namespace {

std::string FishQuoted(const std::string& text) {
  return StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string FishValue(const OptionText& option) {
  switch (CompletesBy(option)) {
    case Completes::kNothing: return "";
    case Completes::kWords: return StrCat(" -a ", FishQuoted(absl::StrJoin(option.words, " ")));
    case Completes::kFiles: return " -F";
    case Completes::kFolders: return " -a '(__fish_complete_directories)'";
  }
  return "";
}

std::string FishOption(const OptionText& option) {
  if (option.argument) return option.command_line ? "" : FishValue(option);
  std::string out;
  for (const std::string& name : option.names)
    StrAppend(&out, name.starts_with("--") ? StrCat(" -l ", name.substr(2)) : StrCat(" -s ", name.substr(1)));
  if (!option.value.empty()) StrAppend(&out, CompletesBy(option) == Completes::kFiles ? " -r" : " -x");
  return StrCat(out, FishValue(option), " -d ", FishQuoted(Brief(option.help)));
}

}  // namespace

std::string FishCompletion(const CommandText& root) {
  const std::string& name = root.name;
  std::string out = StrCat("# Completion of ", name, " for fish, written by `", name, " completion fish`.\nfunction __",
                           name, "_path\n    set -l path ", name,
                           "\n    for word in (commandline -opc)[2..-1]\n        switch \"$path $word\"\n");
  std::vector<std::string> steps;
  for (const CommandText* command : AllCommands(root))
    if (command != &root) steps.push_back(FishQuoted(command->path));
  StrAppend(&out, "            case ", absl::StrJoin(steps, " "), "\n                set path \"$path $word\"\n");
  for (const CommandText* command : AllCommands(root))
    for (const OptionText& option : command->options)
      if (option.command_line)
        StrAppend(&out, "            case '", command->path, " --'\n                set path ", name, "\n");
  StrAppend(&out, "        end\n    end\n    echo $path\nend\ncomplete -c ", name, " -f\n");
  for (const CommandText* command : AllCommands(root)) {
    const std::string at = StrCat("complete -c ", name, " -n 'test (__", name, "_path) = \"", command->path, "\"'");
    for (const CommandText& choice : command->commands)
      StrAppend(&out, at, " -a ", choice.name, " -d ", FishQuoted(Brief(choice.summary)), "\n");
    for (const OptionText& option : command->options)
      if (const std::string what = FishOption(option); !what.empty()) StrAppend(&out, at, what, "\n");
  }
  return out;
}

}  // namespace twofold
