// The `twofold` program.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/errors.h"
#include "core/base/printable.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "experiments/bench/command.h"
#include "experiments/calibrate/command.h"
#include "experiments/pictures/command.h"
#include "experiments/program/commands.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace {

using twofold::StrAppend;
using twofold::StrCat;

constexpr const char* kTour =
    "A small tour:\n"
    "  twofold list models                                what can be trained\n"
    "  twofold run SPEC --check                           is this spec right?\n"
    "  twofold calibrate                                  what do kernels and links of this machine cost?\n"
    "  twofold memory SPEC                                what memory will it take, and for what?\n"
    "  twofold run SPEC --fabric=simulated                predict memory, communication and step time\n"
    "  twofold run SPEC --fabric=in_memory                measure them\n"
    "  twofold launch --ranks=2 -- run SPEC               the same with a process a rank, by MPI\n"
    "  twofold compare DIR_PREDICTED DIR_MEASURED         how good was the prediction?\n"
    "  twofold bench all_reduce                           how fast is communication? (nccl-tests' table)\n"
    "  twofold topology show dgx-h100                     a cluster as a picture, and its figures\n"
    "  twofold schedule --out=schedules.svg               what the stages of a pipeline do, by schedule\n"
    "  twofold report DIR                                 see it: time line, memory, errors\n"
    "\n`twofold COMMAND --help` has examples of each command.\n"
    "Results go to stdout; messages and progress go to stderr.\n"
    "Exit status: 0 fine; 1 a failure at run time; 2 wrong input; 3 a simulation predicts that memory runs out or ranks\n"
    "wait for each other forever.";

// "twofold: error: ..." on stderr, in colour where that is a terminal.
// Messages quote files, arguments and names of files; none of those is to speak to the terminal.
class PrintableMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = twofold::Printable({message.payload.data(), message.payload.size()}, "\n\t");
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PrintableMessage>(); }
};

void LogToStderr() {
  auto logger = spdlog::stderr_color_mt("twofold");
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableMessage>('*').set_pattern("%n: %^%l%$: %*");
  logger->set_formatter(std::move(formatter));
  spdlog::set_default_logger(std::move(logger));
}

// The words of which one must follow a command. Empty: it takes none.
std::vector<std::string> Choices(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* choice : command.get_subcommands(std::function<bool(const CLI::App*)>())) names.push_back(choice->get_name());
  return names;
}

// A word where a command's name is expected: the first that names none. Null when there is none, or no word.
const char* UnknownWord(const CLI::App& app, int argc, char** argv, const CLI::App*& where) {
  where = &app;
  for (int i = 1; i < argc && argv[i][0] != '-' && !Choices(*where).empty(); ++i) {
    const auto named = where->get_subcommands([&](const CLI::App* command) { return command->get_name() == argv[i]; });
    if (named.empty()) return argv[i];
    where = named[0];
  }
  return nullptr;
}

std::string UnknownWordText(const CLI::App& where, const std::string& word) {
  if (word == "plan") return "plan: not in this version; predict layouts one by one: twofold run SPEC --fabric=simulated --set=parallel.tp=8 --out=DIR";
  const std::string of = where.get_parent() == nullptr ? "" : where.get_name() + " ";
  return StrCat("\"", word, "\" is ", of.empty() ? "no command" : StrCat("nothing to ", where.get_name()), twofold::Suggestion(word, Choices(where)), "; twofold ", of,
                "--help says more");
}

// The parser's "Could not convert: --ranks = abc" and "--ranks: 1 required INT missing", with what would be right.
std::string AboutOption(const CLI::App& command, const std::string& text) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name(), type = option->get_type_name(), wrong = StrCat("Could not convert: ", name, " = ");
    const std::string right = type == "INT" ? "a whole number is right" : type == "FLOAT" ? "a number is right" : "a value is right";
    if (text.starts_with(wrong)) return StrCat(name, "=", text.substr(wrong.size()), ": ", right);
    if (text == StrCat(name, ": 1 required ", type, " missing")) return StrCat(name, " has no value: ", right);
  }
  return text;
}

// What the parser found wrong, and where more is said.
std::string ErrorText(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::string path;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().back();
    StrAppend(&path, command->get_name(), " ");
  }
  const std::string help = StrCat(" (twofold ", path, "--help)");
  if (const std::vector<std::string> choices = Choices(*command); !choices.empty() && error.get_name() == "RequiredError") {
    return StrCat(command == &app ? "say what to do: " : StrCat(command->get_name(), ": say what: "), absl::StrJoin(choices, ", "), help);
  }
  return StrCat(AboutOption(*command, error.what()), help);
}

// Of a write that failed before, stdout does not say why.
bool ReaderHasGone() {
  pollfd out = {.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

// Results that did not reach stdout are a failure, whatever else went well; a reader that has closed its pipe has seen enough.
int AfterOutput(int exit_status) {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_status;
  const int why = errno;
  if (why == EPIPE || ReaderHasGone()) return exit_status;
  spdlog::error("stdout: cannot be written{}{}", why == 0 ? "" : ": ", why == 0 ? "" : std::strerror(why));
  return exit_status == twofold::kExitFine ? twofold::kExitFailed : exit_status;
}

}  // namespace

int main(int argc, char** argv) {
  LogToStderr();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows beyond the user's limit is one that cannot be written, and is named
  CLI::App app("Twofold runs distributed training twice, simulated and real, with the same strategy code.",
               "twofold");
  app.set_version_flag("--version", "twofold " TWOFOLD_VERSION);
  app.require_subcommand(1);
  int exit_status = twofold::kExitFine;
  twofold::AddRunCommand(app, exit_status);
  twofold::AddMemoryCommand(app, exit_status);
  twofold::AddCompareCommand(app, exit_status);
  twofold::AddBenchCommand(app, exit_status);
  twofold::AddCalibrateCommand(app, exit_status);
  twofold::AddLaunchCommand(app, exit_status);
  twofold::AddReportCommand(app, exit_status);
  twofold::AddTopologyCommand(app, exit_status);
  twofold::AddScheduleCommand(app, exit_status);
  twofold::AddListCommand(app, exit_status);
  app.footer(kTour);  // at last: commands made before do not take it over
  const CLI::App* where = nullptr;
  if (const char* word = UnknownWord(app, argc, argv, where)) {
    spdlog::error("{}", UnknownWordText(*where, word));
    return twofold::kExitWrongInput;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
  } catch (const CLI::ParseError& error) {
    spdlog::error("{}", ErrorText(app, error));
    return twofold::kExitWrongInput;
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return twofold::kExitFailed;
  }
  return AfterOutput(exit_status);
}
