#include "experiments/program/cli/wrap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// Columns, where each code point of UTF-8 takes one.
size_t ColumnsOf(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool IsCommand(std::string_view line) {
  for (const std::string_view program : {"twofold ", "mpirun ", "srun ", "nvidia-smi ", "$ ", "source ", "eval "})
    if (line.starts_with(program)) return true;
  const std::string_view word = line.substr(0, line.find(' '));  // NAME=value before a command
  return word.find('=') != std::string_view::npos && word.front() >= 'A' && word.front() <= 'Z';
}

bool BeginsAParagraph(std::string_view line) {
  for (const std::string_view word : {"Examples:", "Example:", "Exit status:"})
    if (line.starts_with(word)) return true;
  return false;
}

// An indented line that is too long. Its second column moves to the left where that is enough.
std::string BrokenLine(std::string_view line, size_t width) {
  constexpr size_t kUnder = 6, kFarthestColumn = 34;
  const size_t indent = line.find_first_not_of(' ');
  const size_t gap = line.find("  ", indent);
  if (gap == std::string_view::npos) {
    if (IsCommand(line.substr(indent))) return std::string(line);
    const size_t at = indent > width / 2 ? kUnder : indent;
    return StrCat(std::string(at, ' '), Filled(std::string(line.substr(indent)), width, at, at));
  }
  const size_t second = line.find_first_not_of(' ', gap);
  const std::string right(line.substr(second));
  const size_t least = ColumnsOf(line.substr(0, gap)) + 2 + ColumnsOf(right);
  if (least <= width) return StrCat(line.substr(0, gap), std::string(2 + width - least, ' '), right);
  if (second <= kFarthestColumn) return StrCat(line.substr(0, second), Filled(right, width, second, second));
  return StrCat(line.substr(0, gap), "\n", std::string(kUnder, ' '), Filled(right, width, kUnder, kUnder));
}

}  // namespace

size_t TerminalWidth() {
  constexpr size_t kUnknown = 80, kLeast = 40, kMost = 120;
  size_t width = kUnknown;
  winsize window = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) {
    width = window.ws_col;
  } else if (const char* columns = std::getenv("COLUMNS"); columns != nullptr) {
    unsigned stated = 0;
    if (absl::SimpleAtoi(columns, &stated) && stated > 0) width = stated;
  }
  return std::clamp(width, kLeast, kMost);
}

std::string Filled(const std::string& text, size_t width, size_t first, size_t indent) {
  std::string out;
  size_t column = first;
  bool begins = true;
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty()))) {
    const size_t columns = ColumnsOf(word);
    if (!begins && column + 1 + columns > width) {
      StrAppend(&out, "\n", std::string(indent, ' '));
      column = indent;
      begins = true;
    }
    StrAppend(&out, begins ? "" : " ", word);
    column += columns + (begins ? 0 : 1);
    begins = false;
  }
  return out;
}

std::string Wrapped(const std::string& text, size_t width) {
  std::string out, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) StrAppend(&out, Filled(paragraph, width, 0, 0), "\n");
    paragraph.clear();
  };
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    if (!line.empty() && line.front() != ' ') {
      if (BeginsAParagraph(line)) {
        end_paragraph();
        if (!out.empty() && !out.ends_with("\n\n")) StrAppend(&out, "\n");
      }
      StrAppend(&paragraph, paragraph.empty() ? "" : " ", line);
      continue;
    }
    end_paragraph();
    StrAppend(&out, ColumnsOf(line) <= width ? std::string(line) : BrokenLine(line, width), "\n");
  }
  end_paragraph();
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace twofold
