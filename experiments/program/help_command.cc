// twofold help, completion and man: what the command line says of itself.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/cli/completion.h"
#include "experiments/program/cli/help.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/cli/man.h"
#include "experiments/program/cli/wrap.h"
#include "experiments/program/commands.h"
#include "experiments/program/report/files.h"

namespace twofold {
namespace {

struct ManOptions {
  std::vector<std::string> command;
  std::string out;
};

int Refuse(const absl::Status& status) {
  LogError(status.message());
  return kExitWrongInput;
}

int PrintHelp(const CommandLine& line, const std::vector<std::string>& names) {
  const absl::StatusOr<CommandText> command = line.Describe(names);
  if (!command.ok()) return Refuse(command.status());
  std::printf("%s", HelpText(*command, TerminalWidth()).c_str());
  return kExitFine;
}

int PrintCompletion(const CommandLine& line, const std::string& shell) {
  const CommandText root = line.Describe();
  const std::string text = shell == "bash"  ? BashCompletion(root)
                           : shell == "zsh" ? ZshCompletion(root)
                                            : FishCompletion(root);
  std::printf("%s", text.c_str());
  return kExitFine;
}

int WriteManPages(const CommandText& root, const std::string& source, const std::string& out) {
  if (const absl::Status made = MakeOutFolder("--out", out); !made.ok()) return Refuse(made);
  std::vector<NamedText> files;
  for (const CommandText* command : AllCommands(root))
    files.push_back({ManPageName(*command) + ".1", ManPage(*command, root, source)});
  if (const absl::Status written = WriteFiles(out, files); !written.ok()) {
    LogError(written.message());
    return kExitFailed;
  }
  for (const NamedText& file : files) std::printf("%s/%s\n", out.c_str(), file.name.c_str());
  return kExitFine;
}

int PrintManPage(const CommandLine& line, const std::string& source, const ManOptions& options) {
  const CommandText root = line.Describe();
  if (!options.out.empty()) {
    if (options.command.empty()) return WriteManPages(root, source, options.out);
    return Refuse(absl::InvalidArgumentError("--out writes the pages of all commands; leave COMMAND out"));
  }
  const absl::StatusOr<CommandText> command = line.Describe(options.command);
  if (!command.ok()) return Refuse(command.status());
  std::printf("%s", ManPage(*command, root, source).c_str());
  return kExitFine;
}

}  // namespace

void AddHelpCommands(CommandLine& line, const std::string& source, int& exit_status) {
  const Command program = line.root();
  const Command help = program.AddCommand("help", "explains a command, as COMMAND --help does");
  auto names = std::make_shared<std::vector<std::string>>();
  help.AddOption("COMMAND", *names, "the command, such as run, or topology show; default: twofold itself");
  help.Footer(
      "Exit status: 0 fine; 2 there is no such command.\n"
      "\nExamples:\n  twofold help run\n  twofold help topology import");
  help.OnParsed([&line, names, &exit_status] { exit_status = PrintHelp(line, *names); });

  const Command completion = program.AddCommand("completion", "prints the script by which a shell completes commands");
  auto shell = std::make_shared<std::string>();
  completion.AddOption("SHELL", *shell, "bash, zsh or fish").Required().OneOf({"bash", "zsh", "fish"});
  completion.Footer(
      "The script is made from the commands and options of this build. It completes commands, options, files, and "
      "names\n"
      "such as those of fabrics, models and clusters.\n"
      "Exit status: 0 fine; 1 stdout cannot be written; 2 wrong input.\n"
      "\nExamples:\n"
      "  source <(twofold completion bash)                                            in ~/.bashrc\n"
      "  twofold completion bash > ~/.local/share/bash-completion/completions/twofold\n"
      "  twofold completion zsh > ~/.zfunc/_twofold                                   a folder of $fpath\n"
      "  twofold completion fish > ~/.config/fish/completions/twofold.fish");
  completion.OnParsed([&line, shell, &exit_status] { exit_status = PrintCompletion(line, *shell); });

  const Command man = program.AddCommand("man", "prints the man page of a command");
  auto options = std::make_shared<ManOptions>();
  man.AddOption("COMMAND", options->command, "the command, such as run, or topology show; default: twofold itself");
  man.AddOption("--out=DIR", options->out,
                "write the pages of all commands to this folder: twofold.1, twofold-run.1, ...");
  man.Footer(
      "Exit status: 0 fine; 1 a page cannot be written; 2 wrong input.\n"
      "\nExamples:\n"
      "  twofold man run | man -l -\n"
      "  twofold man --out=/usr/local/share/man/man1                then: man twofold-run");
  man.OnParsed([&line, source, options, &exit_status] { exit_status = PrintManPage(line, source, *options); });
}

}  // namespace twofold
