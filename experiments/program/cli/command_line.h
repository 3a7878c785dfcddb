// Command lines: a program's commands and options, and the callback to run. From what is added here follow --help, man
// pages and completions (Describe). Every command also has --color, --quiet and --verbose (output.h). This header hides
// the parser (CLI11).
//
//   CommandLine line("Twofold runs ...", "twofold", [] { return std::string("twofold 0.1"); });
//   Command run = line.root().AddCommand("run", "predicts or measures a spec");
//   run.AddOption("SPEC", options->spec, "a spec, .textproto").Required();
//   run.AddOption("--out=DIR", options->out, "folder of the report");
//   run.OnParsed([options] { ... });
//   absl::Status status = line.Parse(argc, argv);
//
// Commands and options are handles to objects that the CommandLine owns: copies refer to the same command. The
// variables that options fill must outlive the parse. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/program/cli/command_text.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace twofold {

// What the parser does not know of commands and options; a CommandLine owns it.
struct CommandNotes;

class CommandOption {
 public:
  CommandOption(CLI::Option* option, CommandNotes* notes) : option_(option), notes_(notes) {}
  CommandOption Required() const;
  CommandOption ShowDefault() const;                                 // --help shows the variable's current value
  CommandOption OneOf(const std::vector<std::string>& words) const;  // any other value is refused
  CommandOption Repeatable() const;                                  // of a list: each --name=VALUE adds one value
  CommandOption LastCounts() const;                                  // if given twice, the last one counts
  CommandOption Offers(std::vector<std::string> words) const;        // completion offers these values
  CommandOption IsCommandLine() const;                               // the values are a command line of this program
  CommandOption Hidden() const;                                      // only for the program's own processes

 private:
  CLI::Option* option_;
  CommandNotes* notes_;
};

class Command {
 public:
  Command(CLI::App* app, CommandNotes* notes) : app_(app), notes_(notes) {}
  Command AddCommand(const std::string& name, const std::string& summary) const;
  void RequireCommand() const;  // one of its sub-commands must be given
  // The heading of the options and commands that are added from now on.
  const Command& Group(const std::string& heading) const;

  // `names`: "--ranks=N", "-b,--minbytes=BYTES", or "SPEC" for a positional argument; N names the value in --help. T:
  // std::string, int, int64_t, double, an optional of one of these, or a vector of strings.
  template <class T>
  CommandOption AddOption(const std::string& names, T& value, const std::string& help) const;
  CommandOption AddFlag(const std::string& names, bool& value, const std::string& help) const;
  // An option of other programs that does not exist here. It is not in --help; using it is an error with the text
  // `why`.
  void Refuse(const std::string& names, const std::string& why) const;

  void Footer(const std::string& text) const;  // the end of --help; commands that are added later inherit it
  // called if this command was chosen, once all options are filled
  void OnParsed(std::function<void()> callback) const;

 private:
  CLI::App* app_;
  CommandNotes* notes_;
};

class CommandLine {
 public:
  // `version`: returns the text of --version, called when that is given; null: there is no such option.
  CommandLine(const std::string& summary, const std::string& name, std::function<std::string()> version = nullptr);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command root() const;
  // Completion offers `words` for every option and argument whose value is called `value` ("FABRIC") and that offers
  // none of its own. Called by Describe. COMMAND is offered the commands.
  void Offer(const std::string& value, std::function<std::vector<std::string>()> words);
  // All commands and options, without hidden and refused ones.
  CommandText Describe() const;
  // The command that `names` lead to from the root, as in {"topology", "show"}.
  absl::StatusOr<CommandText> Describe(const std::vector<std::string>& names) const;
  // The answer to a word that is not a command but that people may expect.
  void Answer(const std::string& word, const std::string& text) { answers_.emplace_back(word, text); }

  // Fills variables and calls the chosen command. --help and --version print to stdout and return OK. InvalidArgument
  // says what is wrong and which --help to read. Exceptions of a command pass through.
  absl::Status Parse(int argc, char** argv);
  // Parses the words after argv[0] in the same way, without printing. Returns whether they ask for --help or --version.
  absl::StatusOr<bool> Check(const std::vector<std::string>& words);

 private:
  void AddCommon() const;
  absl::StatusOr<bool> Read(const std::vector<std::string>& words, bool print);
  std::string UnknownWord(const std::vector<std::string>& words) const;
  std::string UnknownWordText(const CLI::App& where, const std::string& word) const;

  std::unique_ptr<CommandNotes> notes_;
  std::unique_ptr<CLI::App> app_;
  std::vector<std::pair<std::string, std::string>> answers_;
};

}  // namespace twofold
