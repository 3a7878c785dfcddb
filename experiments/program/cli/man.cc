#include "experiments/program/cli/man.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/strings.h"
#include "experiments/program/cli/help.h"

namespace twofold {
namespace {

// A line of text, of which troff takes nothing for a request or an escape.
std::string Troff(const std::string& text) {
  const std::string escaped =
      absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"`", "\\(ga"}, {"^", "\\(ha"}, {"~", "\\(ti"}});
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

// Paragraphs are filled; indented lines stay as they are.
std::string Body(const std::string& text) {
  std::string out;
  bool as_is = false, begins = true;
  for (const auto view : absl::StrSplit(text, '\n')) {
    const std::string line(view);
    const bool indented = line.starts_with(' ');
    if (line.empty()) {
      begins = true;
      continue;
    }
    if (indented != as_is)
      StrAppend(&out, indented ? ".PP\n.nf\n" : ".fi\n.PP\n");
    else if (begins)
      StrAppend(&out, ".PP\n");
    as_is = indented;
    begins = false;
    StrAppend(&out, Troff(line), "\n");
  }
  return StrCat(out, as_is ? ".fi\n" : "");
}

std::string Options(const CommandText& command) {
  std::string out;
  for (const std::string& group : OptionGroups(command)) {
    StrAppend(&out, ".SH ", absl::AsciiStrToUpper(group), "\n");
    for (const OptionText& option : command.options) {
      if (option.group == group)
        StrAppend(&out, ".TP\n.B ", Troff(OptionNames(option)), "\n", Troff(OptionHelp(option)), "\n");
    }
  }
  return out;
}

std::string Commands(const CommandText& command) {
  std::string out;
  for (const std::string& group : CommandGroups(command)) {
    StrAppend(&out, ".SH ", absl::AsciiStrToUpper(group), "\n");
    for (const CommandText& choice : command.commands)
      if (choice.group == group)
        StrAppend(&out, ".TP\n.BR ", Troff(ManPageName(choice)), " (1)\n", Troff(choice.summary), "\n");
  }
  return out;
}

}  // namespace

std::string ManPageName(const CommandText& command) { return absl::StrReplaceAll(command.path, {{" ", "-"}}); }

std::string ManPage(const CommandText& command, const CommandText& root, const std::string& source) {
  const std::string name = ManPageName(command);
  std::string out = StrCat(".TH ", Troff(absl::AsciiStrToUpper(name)), " 1 \"\" \"", Troff(source), "\"\n.SH NAME\n",
                           Troff(name), " \\- ", Troff(command.summary), "\n.SH SYNOPSIS\n.B ",
                           Troff(UsageText(command)), "\n", Commands(command), Options(command));
  if (!command.footer.empty()) StrAppend(&out, ".SH DESCRIPTION\n", Body(command.footer));
  if (&command != &root) StrAppend(&out, ".SH SEE ALSO\n.BR ", Troff(root.name), " (1)\n");
  return out;
}

}  // namespace twofold
