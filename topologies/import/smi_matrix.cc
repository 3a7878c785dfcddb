#include "topologies/import/smi_matrix.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr std::string_view kAffinities[] = {"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"};

std::vector<std::string> Words(std::string_view line) {
  return absl::StrSplit(absl::string_view(line.data(), line.size()), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
}

// Removes the escape codes that colour and underline on a terminal (ESC [ ... letter).
std::string Plain(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      if (i + 1 < text.size() && text[i + 1] == '[') ++i;
      while (i + 1 < text.size() && (std::isdigit(static_cast<unsigned char>(text[i + 1])) != 0 || text[i + 1] == ';'))
        ++i;
      if (i + 1 < text.size() && std::isalpha(static_cast<unsigned char>(text[i + 1])) != 0) ++i;
    } else if (text[i] != '\r') {
      plain += text[i];
    }
  }
  return plain;
}

bool Relation(std::string_view word) {
  for (const std::string_view known : {"X", "PIX", "PXB", "PHB", "NODE", "SYS"}) {
    if (word == known) return true;
  }
  int links = 0;
  return word.starts_with("NV") && absl::SimpleAtoi(std::string(word.substr(2)), &links) && links >= 1 && links <= 64 &&
         std::isdigit(static_cast<unsigned char>(word[2])) != 0;
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : text_(Plain(text)) { matrix_.file = file; }

  absl::StatusOr<SmiMatrix> Read() {
    std::string_view line;
    while (true) {
      if (!Next(line)) {
        return InvalidArgument(matrix_.file,
                               ": no line begins with GPU0; expected the output of `nvidia-smi topo -m`, NCCL's XML or "
                               "a SimGrid platform");
      }
      const std::vector<std::string> words = Words(line);
      if (!words.empty() && words[0] == "GPU0" && (words.size() < 2 || !Relation(words[1]))) break;
      matrix_.before.emplace_back(line);
    }
    if (absl::Status s = Head(line); !s.ok()) return s;
    for (const std::string& name : names_) {
      if (!Next(line)) return Error("the text ends before the row of ", name, "; every column needs a row");
      if (absl::Status s = Row(name, line); !s.ok()) return s;
    }
    while (Next(line)) matrix_.after.emplace_back(line);
    if (absl::Status s = Symmetric(); !s.ok()) return s;
    return std::move(matrix_);
  }

 private:
  absl::Status Error(const auto&... what) const { return InvalidArgument(matrix_.file, ":", line_, ": ", what...); }

  bool Next(std::string_view& line) {
    if (at_ >= text_.size()) return false;
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    line = std::string_view(text_).substr(at_, end - at_);
    at_ = end + 1;
    ++line_;
    return true;
  }

  absl::Status Head(std::string_view line) {
    const size_t affinities = std::min(line.find("CPU Affinity"), line.size());
    names_ = Words(line.substr(0, affinities));
    if (names_.size() > kMostSmiDevices)
      return Error(names_.size(), " GPUs and NICs; at most ", kMostSmiDevices, " are supported");
    if (std::set<std::string>(names_.begin(), names_.end()).size() != names_.size())
      return Error("two columns have the same name");
    std::string_view rest = line.substr(affinities);
    for (const std::string_view column : kAffinities) {
      const size_t start = rest.find_first_not_of(" \t");
      if (start == std::string_view::npos) return absl::OkStatus();
      rest.remove_prefix(start);
      if (!rest.starts_with(column)) break;
      matrix_.affinity_columns.emplace_back(column);
      rest.remove_prefix(column.size());
    }
    if (rest.find_first_not_of(" \t") == std::string_view::npos) return absl::OkStatus();
    return Error("\"", rest.substr(0, 40), "\": only CPU Affinity, NUMA Affinity and GPU NUMA ID may follow the names");
  }

  absl::Status Row(const std::string& name, std::string_view line) {
    std::vector<std::string> words = Words(line);
    if (words.empty() || words[0] != name) {
      return Error("expected row ", name, " (got \"", words.empty() ? "" : words[0],
                   "\"); rows have the names of the columns, in the same order");
    }
    if (words.size() < 1 + names_.size()) {
      return Error("row ", name, " must have ", names_.size(), " relations, one per column (got ", words.size() - 1,
                   ")");
    }
    SmiMatrix::Row row{.name = name};
    for (size_t c = 0; c < names_.size(); ++c) {
      const std::string& word = words[1 + c];
      if (!Relation(word)) {
        return Error("row ", name, ", column ", names_[c], ": \"", word,
                     "\": must be X, NV with a number, PIX, PXB, PHB, NODE or SYS");
      }
      if ((word == "X") != (names_[c] == name))
        return Error("row ", name, ", column ", names_[c], ": X must be on the diagonal and nowhere else");
      row.relations.push_back(word);
    }
    for (size_t w = 1 + names_.size(); w < words.size(); ++w) row.affinities.push_back(words[w]);
    if (row.affinities.size() > matrix_.affinity_columns.size()) {
      return Error("row ", name, " ends in \"", words.back(),
                   "\": it has more affinities than there are columns for them");
    }
    matrix_.rows.push_back(std::move(row));
    return absl::OkStatus();
  }

  absl::Status Symmetric() const {
    for (size_t a = 0; a < names_.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const std::string &there = matrix_.rows[a].relations[b], &back = matrix_.rows[b].relations[a];
        if (there != back) {
          return InvalidArgument(matrix_.file, ": ", names_[a], " is ", there, " to ", names_[b], ", but ", names_[b],
                                 " is ", back, " to ", names_[a], "; the matrix must be symmetric");
        }
      }
    }
    return absl::OkStatus();
  }

  const std::string text_;
  size_t at_ = 0;
  int line_ = 0;
  std::vector<std::string> names_;
  SmiMatrix matrix_;
};

}  // namespace

bool SmiMatrix::operator==(const SmiMatrix& other) const {
  return before == other.before && affinity_columns == other.affinity_columns && rows == other.rows &&
         after == other.after;
}

std::string SmiMatrix::InterfaceOf(std::string_view nic) const {
  for (const std::string& line : after) {
    const std::vector<std::string> words = Words(line);
    if (words.size() == 2 && words[0] == StrCat(nic, ":")) return words[1];
  }
  return std::string(nic);
}

std::vector<std::string> SmiMatrix::GpuNames() const {
  std::vector<std::string> names;
  for (const std::vector<std::string>* lines : {&before, &after}) {
    for (const std::string& line : *lines) {
      const size_t colon = line.find(": "), uuid = line.find(" (UUID: ");
      int index = 0;
      if (!line.starts_with("GPU ") || colon == std::string::npos || uuid == std::string::npos || uuid < colon + 2 ||
          !absl::SimpleAtoi(line.substr(4, colon - 4), &index)) {
        continue;
      }
      std::string name = line.substr(colon + 2, uuid - colon - 2);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

absl::StatusOr<SmiMatrix> ReadSmiMatrix(std::string_view text, std::string_view file) {
  if (text.size() > kMostSmiBytes) {
    return InvalidArgument(file, ": the file has ", text.size(), " bytes; at most ", kMostSmiBytes, " are supported");
  }
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return InvalidArgument(file, ": not a text file (zero byte at offset ", zero, ")");
  }
  return Reader(text, file).Read();
}

std::string WriteSmiMatrix(const SmiMatrix& matrix) {
  std::string out;
  for (const std::string& line : matrix.before) StrAppend(&out, line, "\n");
  for (const SmiMatrix::Row& row : matrix.rows) StrAppend(&out, "\t", row.name);
  for (const std::string& column : matrix.affinity_columns) StrAppend(&out, "\t", column);
  out += '\n';
  for (const SmiMatrix::Row& row : matrix.rows) {
    out += row.name;
    for (const std::string& relation : row.relations) StrAppend(&out, "\t", relation == "X" ? " X " : relation);
    for (size_t a = 0; a < row.affinities.size(); ++a) {
      // nvidia-smi puts two tabs before the last column.
      StrAppend(&out, matrix.affinity_columns[a] == "GPU NUMA ID" ? "\t\t" : "\t", row.affinities[a]);
    }
    out += '\n';
  }
  for (const std::string& line : matrix.after) StrAppend(&out, line, "\n");
  return out;
}

}  // namespace twofold
