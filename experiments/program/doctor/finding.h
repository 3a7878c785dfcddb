// What `twofold doctor` finds of this machine, installation and environment: one finding a thing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace twofold::doctor {

// kNote: something that a reader may want to know or change. kFault: something that a run may fail by, or that makes
// figures wrong.
enum class Kind { kOk, kNote, kFault };

struct Finding {
  Kind kind = Kind::kOk;
  std::string name;    // of the thing: "open files"; the same in every version
  std::string text;    // what was found
  std::string remedy;  // what to do; a fault has one
};
using Findings = std::vector<Finding>;

// "ok    clock   1 ns a tick, by tsc", one line each, remedies below theirs, and the number of notes and faults at the
// end. `colour`: by the escapes of terminals.
std::string FindingsText(const Findings& findings, size_t width, bool colour);
// {"findings": [{"kind": "OK", "name", "text", "remedy"}], "notes": 1, "faults": 0}
nlohmann::ordered_json FindingsJson(const Findings& findings);
int Faults(const Findings& findings);

}  // namespace twofold::doctor
