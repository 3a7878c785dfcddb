#include "experiments/program/doctor/finding.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/base/printable.h"
#include "core/base/strings.h"
#include "experiments/program/cli/wrap.h"

namespace twofold::doctor {
namespace {

int64_t Count(const Findings& findings, Kind kind) {
  return std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.kind == kind; });
}

const char* Word(Kind kind) { return kind == Kind::kOk ? "ok" : kind == Kind::kNote ? "note" : "fault"; }
const char* Escape(Kind kind) {
  return kind == Kind::kOk ? "\033[32m" : kind == Kind::kNote ? "\033[33m" : "\033[1;31m";
}

}  // namespace

int Faults(const Findings& findings) { return static_cast<int>(Count(findings, Kind::kFault)); }

std::string FindingsText(const Findings& findings, size_t width, bool colour) {
  size_t longest = 0;
  for (const Finding& finding : findings) longest = std::max(longest, finding.name.size());
  const size_t name_column = 7, column = name_column + longest + 2;
  std::string text;
  for (const Finding& finding : findings) {
    std::string word = Word(finding.kind), name = finding.name;
    word.resize(name_column, ' '), name.resize(longest + 2, ' ');
    StrAppend(&text, colour ? Escape(finding.kind) : "", word, colour ? "\033[0m" : "", name,
              Filled(Printable(finding.text), width, column, column), "\n");
    if (!finding.remedy.empty())
      StrAppend(&text, std::string(column, ' '),
                Filled(StrCat("remedy: ", Printable(finding.remedy)), width, column, column), "\n");
  }
  StrAppend(&text, Counted(Faults(findings), "fault"), ", ", Counted(Count(findings, Kind::kNote), "note"), "\n");
  return text;
}

nlohmann::ordered_json FindingsJson(const Findings& findings) {
  nlohmann::ordered_json json = {{"findings", nlohmann::ordered_json::array()}};
  for (const Finding& f : findings) {
    const char* const kind = f.kind == Kind::kOk ? "OK" : f.kind == Kind::kNote ? "NOTE" : "FAULT";
    json["findings"].push_back({{"kind", kind}, {"name", f.name}, {"text", f.text}, {"remedy", f.remedy}});
  }
  json["notes"] = Count(findings, Kind::kNote);
  json["faults"] = Faults(findings);
  return json;
}

}  // namespace twofold::doctor
