// A program's commands and options as data: --help, man pages and completions of shells are all made from it.
#pragma once

#include <string>
#include <vector>

namespace twofold {

struct OptionText {
  std::vector<std::string> names;  // {"-b", "--minbytes"}; of an argument its one name, {"SPEC"}
  std::string value;               // the name of its value, "BYTES"; empty: a flag. See Completes
  std::string help, fallback;      // fallback: the default, if --help shows it
  std::string group;               // its heading
  std::vector<std::string> words;  // values that completion offers
  bool argument = false;           // given by its place
  bool required = false;
  bool repeatable = false;    // several values may be given
  bool command_line = false;  // its values are a command line of the same program

  const std::string& LongName() const { return names.back(); }
};

struct CommandText {
  std::string path;  // "twofold topology show"
  std::string name;  // its last word
  std::string summary, footer, group;
  std::vector<OptionText> options;  // arguments too, in order
  std::vector<CommandText> commands;
};

// What a value may be, by the name that it has: DIR, DIR_MEASURED: a folder; FILE, SPEC, PROGRAM: a file; else one of
// its words, or something that cannot be completed.
enum class Completes { kNothing, kWords, kFiles, kFolders };
Completes CompletesBy(const OptionText& option);

// The command and all below it, each before those below it.
std::vector<const CommandText*> AllCommands(const CommandText& root);
// The beginning of a help text, up to where it goes into details.
std::string Brief(const std::string& help);

}  // namespace twofold
