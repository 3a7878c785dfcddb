// The commands' results for other programs, such as the Python module: each command as a question with named arguments,
// answered by the call that the command itself makes.
//
// Arguments have the names of the command's options. `spec` is a path, or a spec as an object; `text` is a spec's text.
// `set` is a list of "path=value". Absent and null arguments have the options' defaults.
//
//   predict  spec|text, set                          {"report", "summary", "lines"}
//   memory   spec|text, set, fabric, advice          {"memory", "report", "advice", "text"}
//   plan     spec|text or model, cluster, nodes, ... {"plan", "text"}
//   sweep    spec|text, vary, set, fixed, ...        {"sweep", "text", "out"}
//   bench    operation, minbytes, maxbytes, ...      {"bench", "text"}
//   load     folder                                  {"report", "spec", "summary"}
//
// `report` is report.json's; memory, plan, sweep and bench are the commands' JSON; `text` is what they print, and
// `summary` a list of [name, value] for people. Of predict, what is a list or an object in `report` is null there: a
// line of its own has it. `lines` names them, in the order of the lines that follow the first.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/proto/prediction.pb.h"

namespace twofold {

// JSON. INTERNAL: a failure at run time; other errors are those of the arguments, with the command's texts. Forks, so
// that the caller must have one thread.
absl::StatusOr<std::string> AnswerQuestion(const prediction::Question& question);

}  // namespace twofold
