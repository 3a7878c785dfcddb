#include "experiments/program/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <type_traits>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "experiments/program/cli/help.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/cli/other_options.h"
#include "experiments/program/cli/output.h"
#include "experiments/program/cli/wrap.h"

namespace twofold {

struct CommandNotes {
  struct Option {
    std::string value;       // its name
    const char* right = "";  // what a value must be
    std::vector<std::string> words;
    bool repeatable = false, command_line = false;
  };
  // ---- What the common options say. A parse that only checks does not apply it to this process ----
  std::string colour = "auto";
  bool has_common = false, quiet = false, verbose = false, applies = false;
  void Apply() const {
    if (!applies) return;
    UseColour(colour == "always" ? Colour::kAlways : colour == "never" ? Colour::kNever : Colour::kAuto);
    UseVerbosity(quiet ? Verbosity::kQuiet : verbose ? Verbosity::kVerbose : Verbosity::kNormal);
    StyleLog();
  }

  std::map<const CLI::Option*, Option> options;
  std::map<const CLI::App*, std::string> headings;                          // of what is added next
  std::map<std::string, std::function<std::vector<std::string>()>> offers;  // by the name of the value
};

CommandOption CommandOption::Required() const {
  option_->required();
  return *this;
}

CommandOption CommandOption::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

CommandOption CommandOption::OneOf(const std::vector<std::string>& words) const {
  option_->check([words](const std::string& word) -> std::string {
    return std::find(words.begin(), words.end(), word) != words.end()
               ? ""
               : StrCat("\"", word, "\" is not possible", Suggestion(word, words));
  });
  return Offers(words);
}

CommandOption CommandOption::Repeatable() const {
  option_->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  notes_->options[option_].repeatable = true;
  return *this;
}

CommandOption CommandOption::LastCounts() const {
  option_->take_last();
  return *this;
}

CommandOption CommandOption::Offers(std::vector<std::string> words) const {
  notes_->options[option_].words = std::move(words);
  return *this;
}

CommandOption CommandOption::IsCommandLine() const {
  notes_->options[option_].command_line = true;
  return *this;
}

CommandOption CommandOption::Hidden() const {
  option_->group("");
  return *this;
}

Command Command::AddCommand(const std::string& name, const std::string& summary) const {
  const auto heading = notes_->headings.find(app_);
  CLI::App* const command = app_->add_subcommand(name, summary);
  command->group(heading == notes_->headings.end() ? "Commands" : heading->second);
  return Command(command, notes_);
}

void Command::RequireCommand() const { app_->require_subcommand(1); }

const Command& Command::Group(const std::string& heading) const {
  notes_->headings[app_] = heading;
  return *this;
}

namespace {

template <class T>
struct Unwrapped {
  using Type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using Type = T;
};

void SetGroup(const CLI::App& app, const CommandNotes& notes, CLI::Option& option) {
  if (option.get_positional()) return void(option.group("Arguments"));
  const auto heading = notes.headings.find(&app);
  option.group(heading == notes.headings.end() ? "Options" : heading->second);
}

}  // namespace

template <class T>
CommandOption Command::AddOption(const std::string& names, T& value, const std::string& help) const {
  using Value = typename Unwrapped<T>::Type;
  constexpr bool kWhole = std::is_integral_v<Value>, kNumber = std::is_floating_point_v<Value>;
  const size_t equals = names.find('=');
  CLI::Option* const option = app_->add_option(names.substr(0, equals), value, help);
  SetGroup(*app_, *notes_, *option);
  CommandNotes::Option& note = notes_->options[option];
  note.value = equals != std::string::npos ? names.substr(equals + 1)
               : option->get_positional()  ? names
               : kWhole || kNumber         ? "N"
                                           : "TEXT";
  note.right = kWhole ? "a whole number" : kNumber ? "a number" : "a value";
  option->type_name(note.value);
  return CommandOption(option, notes_);
}

template CommandOption Command::AddOption(const std::string&, std::string&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, int&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, int64_t&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, double&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, std::vector<std::string>&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, std::optional<std::string>&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, std::optional<int>&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, std::optional<int64_t>&, const std::string&) const;
template CommandOption Command::AddOption(const std::string&, std::optional<double>&, const std::string&) const;

CommandOption Command::AddFlag(const std::string& names, bool& value, const std::string& help) const {
  CLI::Option* const flag = app_->add_flag(names, value, help);
  SetGroup(*app_, *notes_, *flag);
  return CommandOption(flag, notes_);
}

void Command::Refuse(const std::string& names, const std::string& why) const {
  const std::string shown = names.substr(0, names.find(','));
  app_->add_option_function<std::string>(
          names, [shown, why](const std::string& value) { throw CLI::ValidationError(StrCat(shown, " ", value), why); })
      ->group("");
}

void Command::Footer(const std::string& text) const { app_->footer(text); }

void Command::OnParsed(std::function<void()> callback) const {
  app_->callback([notes = notes_, callback = std::move(callback)] {
    notes->Apply();
    callback();
  });
}

namespace {

// The sub-commands of which one must follow the command. Empty: none is needed.
std::vector<std::string> Choices(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* choice : command.get_subcommands(std::function<bool(const CLI::App*)>()))
    names.push_back(choice->get_name());
  return names;
}

// Rewrites the parser's "Could not convert: --ranks = abc" and "--ranks: 1 required N missing", and adds what would
// be right.
std::string AboutOption(const CLI::App& command, const CommandNotes& notes, const std::string& text) {
  for (const CLI::Option* option : command.get_options()) {
    const auto note = notes.options.find(option);
    if (note == notes.options.end()) continue;
    const std::string name = option->get_name(), &value = note->second.value, right = note->second.right,
                      wrong = StrCat("Could not convert: ", name, " = ");
    if (text.starts_with(wrong)) return StrCat(name, " must be ", right, " (got \"", text.substr(wrong.size()), "\")");
    if (text == StrCat(name, ": 1 required ", value, " missing"))
      return StrCat(name, " needs ", right, ", as in ", name, "=", value);
  }
  return text;
}

// The options of --help.
std::vector<std::string> KnownOptions(const CLI::App& command) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // not in --help
    for (const std::string& name : option->get_lnames()) known.push_back(StrCat("--", name));
  }
  return known;
}

// An error text for the first option that the command does not take. Empty if there is none.
std::string UnknownOption(const CLI::App& command) {
  for (const std::string& word : command.remaining()) {
    if (word == "--") break;
    if (!word.starts_with('-')) continue;
    const std::string name = word.substr(0, word.find('='));
    const std::vector<std::string> known = KnownOptions(command);
    const std::string other = OtherOption(name, known);
    return StrCat("unknown option ", name, other.empty() ? Suggestion(name, known) : other);
  }
  return "";
}

// Likewise for a word that is no option.
std::string UnexpectedArgument(const CLI::App& command) {
  for (const std::string& word : command.remaining()) {
    if (word != "--") return StrCat("unexpected argument \"", word, "\"");
  }
  return "";
}

// The chosen commands, from the program on.
std::vector<const CLI::App*> Chosen(const CLI::App& app) {
  std::vector<const CLI::App*> chosen = {&app};
  while (!chosen.back()->get_subcommands().empty()) chosen.push_back(chosen.back()->get_subcommands().back());
  return chosen;
}

std::string HelpOf(const std::vector<const CLI::App*>& chosen, size_t depth) {
  std::string path = "; see";
  for (size_t i = 0; i <= depth; ++i) StrAppend(&path, " ", chosen[i]->get_name());
  return StrCat(path, " --help");
}

// What no command takes: options first, since what follows an unknown one may be its value.
std::string NotTaken(const std::vector<const CLI::App*>& chosen) {
  for (std::string (*find)(const CLI::App&) : {UnknownOption, UnexpectedArgument}) {
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (const std::string text = find(*chosen[i]); !text.empty()) return StrCat(text, HelpOf(chosen, i));
    }
  }
  return "";
}

// mpirun's -np, which the parser reads as -n with the value "p" where there is -n.
std::string LongByOneDash(const std::vector<std::string>& words, const std::vector<const CLI::App*>& chosen) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word != "-np") continue;
    const std::string other = OtherOption(word, KnownOptions(*chosen.back()));
    if (!other.empty()) return StrCat("unknown option ", word, other, HelpOf(chosen, chosen.size() - 1));
  }
  return "";
}

// The parser's error, and which --help to read.
std::string ErrorText(const CLI::App& app, const CommandNotes& notes, const std::vector<std::string>& words,
                      const CLI::ParseError& error) {
  const std::vector<const CLI::App*> chosen = Chosen(app);
  if (const std::string text = LongByOneDash(words, chosen); !text.empty()) return text;
  if (const std::string text = NotTaken(chosen); !text.empty()) return text;
  const CLI::App* const command = chosen.back();
  const std::string help = HelpOf(chosen, chosen.size() - 1);
  if (const std::vector<std::string> choices = Choices(*command);
      !choices.empty() && error.get_name() == "RequiredError") {
    const std::string missing =
        command == &app ? "no command is given" : StrCat(command->get_name(), ": no subcommand is given");
    return StrCat(missing, "; use one of ", absl::StrJoin(choices, ", "), help);
  }
  return StrCat(AboutOption(*command, notes, error.what()), help);
}

OptionText TextOf(const CLI::Option& option, const CommandNotes& notes) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  text.argument = option.get_positional();
  if (text.argument) text.names = {option.get_name(true, false)};
  text.help = option.get_description();
  text.fallback = option.get_default_str();
  text.group = option.get_group();
  text.required = option.get_required();
  text.repeatable = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  if (const auto note = notes.options.find(&option); note != notes.options.end()) {
    text.value = note->second.value;
    text.words = note->second.words;
    text.repeatable = text.repeatable || note->second.repeatable;
    text.command_line = note->second.command_line;
  }
  return text;
}

CommandText TextOf(const CLI::App& command, const std::string& path, const CommandNotes& notes) {
  CommandText text = {.path = path,
                      .name = command.get_name(),
                      .summary = command.get_description(),
                      .footer = command.get_footer(),
                      .group = command.get_group()};
  const CLI::Option* const help = command.get_help_ptr();
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty() && option != help) text.options.push_back(TextOf(*option, notes));
  if (help != nullptr) text.options.push_back(TextOf(*help, notes));
  for (const CLI::App* choice : command.get_subcommands(std::function<bool(const CLI::App*)>()))
    text.commands.push_back(TextOf(*choice, StrCat(path, " ", choice->get_name()), notes));
  return text;
}

// How commands print (output.h). Added when all other options are known, so that these are the last.
void AddCommonOptions(CLI::App& app, CommandNotes& notes) {
  const std::vector<std::string> whens = {"auto", "always", "never"};
  CLI::Option* const colour = app.add_option("--color", notes.colour, "colours: on terminals, always or never");
  colour->type_name("WHEN")->take_last()->group("Output");
  notes.options[colour] = {.value = "WHEN", .right = "a value"};
  CommandOption(colour, &notes).OneOf(whens);
  CLI::Option* const quiet = app.add_flag("-q,--quiet", notes.quiet, "no progress and no remarks on stderr");
  CLI::Option* const verbose =
      app.add_flag("-v,--verbose", notes.verbose, "notes with all of their text; progress after every step");
  quiet->group("Output"), verbose->group("Output")->excludes(quiet);
  for (CLI::App* command : app.get_subcommands(std::function<bool(CLI::App*)>())) AddCommonOptions(*command, notes);
}

void OfferWords(const std::map<std::string, std::vector<std::string>>& offered, CommandText& command) {
  for (OptionText& option : command.options) {
    const auto words = offered.find(option.value);
    if (words != offered.end() && option.words.empty()) option.words = words->second;
  }
  for (CommandText& choice : command.commands) OfferWords(offered, choice);
}

}  // namespace

CommandLine::CommandLine(const std::string& summary, const std::string& name, std::function<std::string()> version)
    : notes_(std::make_unique<CommandNotes>()), app_(std::make_unique<CLI::App>(summary, name)) {
  app_->set_help_flag("-h,--help", "print this help");
  if (version != nullptr)
    app_->set_version_flag("--version", std::move(version), "print the version, and what this build has");
  app_->formatter_fn([notes = notes_.get()](const CLI::App* app, const std::string& path, CLI::AppFormatMode) {
    return HelpText(TextOf(*app, path, *notes), TerminalWidth());
  });
}

CommandLine::~CommandLine() = default;

Command CommandLine::root() const { return Command(app_.get(), notes_.get()); }

void CommandLine::Offer(const std::string& value, std::function<std::vector<std::string>()> words) {
  notes_->offers[value] = std::move(words);
}

void CommandLine::AddCommon() const {
  if (!notes_->has_common) AddCommonOptions(*app_, *notes_);
  notes_->has_common = true;
}

CommandText CommandLine::Describe() const {
  AddCommon();
  CommandText text = TextOf(*app_, app_->get_name(), *notes_);
  std::map<std::string, std::vector<std::string>> offered;
  for (const auto& [value, words] : notes_->offers) offered[value] = words();
  for (const CommandText* command : AllCommands(text)) offered["COMMAND"].push_back(command->name);
  OfferWords(offered, text);
  return text;
}

absl::StatusOr<CommandText> CommandLine::Describe(const std::vector<std::string>& names) const {
  if (const std::string unknown = UnknownWord(names); !unknown.empty()) return InvalidArgument(unknown);
  CommandText found = Describe();
  for (const std::string& name : names) {
    const auto next = std::find_if(found.commands.begin(), found.commands.end(),
                                   [&](const CommandText& command) { return command.name == name; });
    if (next == found.commands.end())
      return InvalidArgument(found.path, " has no command \"", name, "\"; see ", found.path, " --help");
    found = CommandText(std::move(*next));
  }
  return found;
}

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
  AddCommon();
  if (const std::string unknown = UnknownWord(words); !unknown.empty()) return InvalidArgument(unknown);
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));  // the parser takes them from the end
  } catch (const CLI::Success& help) {
    if (print) app_->exit(help);
    return true;
  } catch (const CLI::ParseError& error) {
    return InvalidArgument(ErrorText(*app_, *notes_, words, error));
  }
  return false;
}

absl::Status CommandLine::Parse(int argc, char** argv) {
  notes_->applies = true;
  return Read(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), true).status();
}

absl::StatusOr<bool> CommandLine::Check(const std::vector<std::string>& words) { return Read(words, false); }

}  // namespace twofold
