// Command lines: a program's commands and options, the text of --help, and the callback to run. This header hides the
// parser (CLI11).
//
//   CommandLine line("Twofold runs ...", "twofold", [] { return std::string("twofold 0.1"); });
//   Command run = line.root().AddCommand("run", "predicts or measures a spec");
//   run.AddOption("SPEC", options->spec, "a spec, .textproto").Required();
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

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace twofold {

class CommandOption {
 public:
  explicit CommandOption(CLI::Option* option) : option_(option) {}
  CommandOption Required() const;
  CommandOption ShowDefault() const;                                 // --help shows the variable's current value
  CommandOption OneOf(const std::vector<std::string>& words) const;  // any other value is refused
  CommandOption Repeatable() const;                                  // of a list: each --name=VALUE adds one value
  CommandOption LastCounts() const;                                  // if given twice, the last one counts

 private:
  CLI::Option* option_;
};

class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}
  Command AddCommand(const std::string& name, const std::string& summary) const;
  void RequireCommand() const;  // one of its sub-commands must be given

  // `names`: "--ranks", "-b,--minbytes", or "SPEC" for a positional argument. T: std::string, int, int64_t, double, an
  // optional of one of these, or a vector of strings.
  template <class T>
  CommandOption AddOption(const std::string& names, T& value, const std::string& help) const;
  void AddFlag(const std::string& names, bool& value, const std::string& help) const;
  // An option of other programs that does not exist here. It is not in --help; using it is an error with the text
  // `why`.
  void Refuse(const std::string& names, const std::string& why) const;

  void Footer(const std::string& text) const;  // the end of --help
  // called if this command was chosen, once all options are filled
  void OnParsed(std::function<void()> callback) const;

 private:
  CLI::App* app_;
};

class CommandLine {
 public:
  // `version`: returns the text of --version, called when that is given; null: there is no such option.
  CommandLine(const std::string& summary, const std::string& name, std::function<std::string()> version = nullptr);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command root() const;
  // The answer to a word that is not a command but that people may expect.
  void Answer(const std::string& word, const std::string& text) { answers_.emplace_back(word, text); }

  // Fills variables and calls the chosen command. --help and --version print to stdout and return OK. InvalidArgument
  // says what is wrong and which --help to read. Exceptions of a command pass through.
  absl::Status Parse(int argc, char** argv);
  // Parses the words after argv[0] in the same way, without printing. Returns whether they ask for --help or --version.
  absl::StatusOr<bool> Check(const std::vector<std::string>& words);

 private:
  absl::StatusOr<bool> Read(const std::vector<std::string>& words, bool print);
  std::string UnknownWord(const std::vector<std::string>& words) const;
  std::string UnknownWordText(const CLI::App& where, const std::string& word) const;

  std::unique_ptr<CLI::App> app_;
  std::vector<std::pair<std::string, std::string>> answers_;
};

}  // namespace twofold
