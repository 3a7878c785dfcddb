#include "experiments/program/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"

namespace twofold {

CommandOption CommandOption::Required() const {
  option_->required();
  return *this;
}

CommandOption CommandOption::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

CommandOption CommandOption::OneOf(const std::vector<std::string>& words) const {
  option_->check(CLI::IsMember(words));
  return *this;
}

CommandOption CommandOption::Repeatable() const {
  option_->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

CommandOption CommandOption::LastCounts() const {
  option_->take_last();
  return *this;
}

Command Command::AddCommand(const std::string& name, const std::string& summary) const {
  return Command(app_->add_subcommand(name, summary));
}

void Command::RequireCommand() const { app_->require_subcommand(1); }

template <class T>
CommandOption Command::AddOption(const std::string& names, T& value, const std::string& help) const {
  return CommandOption(app_->add_option(names, value, help));
}

template CommandOption Command::AddOption(const std::string&, std::string&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, int&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, int64_t&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, double&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, std::vector<std::string>&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, std::optional<std::string>&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, std::optional<int>&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, std::optional<int64_t>&, const std::string&) const;

void Command::AddFlag(const std::string& names, bool& value, const std::string& help) const {
  app_->add_flag(names, value, help);
}

void Command::Refuse(const std::string& names, const std::string& why) const {
  const std::string shown = names.substr(0, names.find(','));
  app_->add_option_function<std::string>(
          names, [shown, why](const std::string& value) { throw CLI::ValidationError(StrCat(shown, " ", value), why); })
      ->group("");
}

void Command::Footer(const std::string& text) const { app_->footer(text); }

void Command::OnParsed(std::function<void()> callback) const { app_->callback(std::move(callback)); }

namespace {

// The sub-commands of which one must follow the command. Empty: none is needed.
std::vector<std::string> Choices(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* choice : command.get_subcommands(std::function<bool(const CLI::App*)>()))
    names.push_back(choice->get_name());
  return names;
}

// Rewrites the parser's "Could not convert: --ranks = abc" and "--ranks: 1 required INT missing", and adds what would
// be right.
std::string AboutOption(const CLI::App& command, const std::string& text) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name(), type = option->get_type_name(),
                      wrong = StrCat("Could not convert: ", name, " = ");
    const std::string right = type == "INT" ? "a whole number" : type == "FLOAT" ? "a number" : "a value";
    if (text.starts_with(wrong)) return StrCat(name, " must be ", right, " (got \"", text.substr(wrong.size()), "\")");
    if (text == StrCat(name, ": 1 required ", type, " missing"))
      return StrCat(name, " needs ", right, ", as in ", name, "=", type);
  }
  return text;
}

// An error text for the first argument that the command does not take. Empty if there is none.
std::string UnknownArgument(const CLI::App& command) {
  for (const std::string& word : command.remaining()) {
    if (word == "--") continue;
    if (!word.starts_with('-')) return StrCat("unexpected argument \"", word, "\"");
    const std::string name = word.substr(0, word.find('='));
    std::vector<std::string> known;
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_group().empty()) continue;  // not in --help
      for (const std::string& long_name : option->get_lnames()) known.push_back(StrCat("--", long_name));
    }
    return StrCat("unknown option ", name, Suggestion(name, known));
  }
  return "";
}

// The parser's error, and which --help to read.
std::string ErrorText(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::string path = app.get_name(), unknown = UnknownArgument(app);
  while (unknown.empty() && !command->get_subcommands().empty()) {
    command = command->get_subcommands().back();
    StrAppend(&path, " ", command->get_name());
    unknown = UnknownArgument(*command);
  }
  const std::string help = StrCat("; see ", path, " --help");
  if (!unknown.empty()) return StrCat(unknown, help);
  if (const std::vector<std::string> choices = Choices(*command);
      !choices.empty() && error.get_name() == "RequiredError") {
    const std::string missing =
        command == &app ? "no command is given" : StrCat(command->get_name(), ": no subcommand is given");
    return StrCat(missing, "; use one of ", absl::StrJoin(choices, ", "), help);
  }
  return StrCat(AboutOption(*command, error.what()), help);
}

}  // namespace

CommandLine::CommandLine(const std::string& summary, const std::string& name, std::function<std::string()> version)
    : app_(std::make_unique<CLI::App>(summary, name)) {
  if (version != nullptr) app_->set_version_flag("--version", std::move(version));
}

CommandLine::~CommandLine() = default;

Command CommandLine::root() const { return Command(app_.get()); }

std::string CommandLine::UnknownWordText(const CLI::App& where, const std::string& word) const {
  for (const auto& [expected, text] : answers_) {
    if (word == expected) return text;
  }
  const bool top = where.get_parent() == nullptr;
  const std::string what = top ? "unknown command" : StrCat(where.get_name(), ": unknown subcommand");
  const std::string path = top ? app_->get_name() : StrCat(app_->get_name(), " ", where.get_name());
  return StrCat(what, " \"", word, "\"", Suggestion(word, Choices(where)), "; see ", path, " --help");
}

// An error text for the first word that should name a command and does not. Empty if there is no such word.
std::string CommandLine::UnknownWord(const std::vector<std::string>& words) const {
  const CLI::App* where = app_.get();
  for (size_t i = 0; i < words.size() && !words[i].starts_with('-') && !Choices(*where).empty(); ++i) {
    const auto named = where->get_subcommands([&](const CLI::App* command) { return command->get_name() == words[i]; });
    if (named.empty()) return UnknownWordText(*where, words[i]);
    where = named[0];
  }
  return "";
}

absl::StatusOr<bool> CommandLine::Read(const std::vector<std::string>& words, bool print) {
  if (const std::string unknown = UnknownWord(words); !unknown.empty()) return InvalidArgument(unknown);
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));  // the parser takes them from the end
  } catch (const CLI::Success& help) {
    if (print) app_->exit(help);
    return true;
  } catch (const CLI::ParseError& error) {
    return InvalidArgument(ErrorText(*app_, error));
  }
  return false;
}

absl::Status CommandLine::Parse(int argc, char** argv) {
  return Read(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), true).status();
}

absl::StatusOr<bool> CommandLine::Check(const std::vector<std::string>& words) { return Read(words, false); }

}  // namespace twofold
