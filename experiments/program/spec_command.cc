// twofold spec: what a spec may say.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/cli/output.h"
#include "experiments/program/cli/wrap.h"
#include "experiments/program/commands.h"
#include "experiments/program/describe/fields.h"
#include "experiments/program/describe/find.h"
#include "experiments/program/describe/json.h"
#include "experiments/program/describe/text.h"
#include "experiments/program/report/json.h"

namespace twofold {
namespace {

struct SpecOptions {
  std::string field;
  bool schema = false, proto = false, json = false;
};

absl::Status Print(const SpecOptions& options) {
  if (options.schema + options.proto + options.json > 1)
    return absl::InvalidArgumentError("--schema, --proto and --json exclude each other; use one of them");
  if (!options.field.empty() && (options.schema || options.proto))
    return absl::InvalidArgumentError("--schema and --proto print all fields; leave FIELD out");
  if (options.proto) {
    std::printf("%s", std::string(SpecProto()).c_str());
    return absl::OkStatus();
  }
  const std::vector<SpecField> all = SpecFields();
  if (options.schema) {
    std::printf("%s", JsonText(SpecSchema(all)).c_str());
    return absl::OkStatus();
  }
  FoundFields found;
  if (options.field.empty()) {
    for (const SpecField& field : all) found.fields.push_back(&field);
  } else {
    absl::StatusOr<FoundFields> asked = FindFields(all, options.field);
    if (!asked.ok()) return asked.status();
    found = *std::move(asked);
  }
  const std::string text =
      options.json ? JsonText(FieldsJson(found.fields)) : FieldsText(found.fields, TerminalWidth(), ColourOnStdout());
  std::printf("%s", text.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddSpecCommand(const Command& program, int& exit_status) {
  const Command command =
      program.AddCommand("spec", "explains the fields of a spec: their types, defaults, ranges and meanings");
  auto options = std::make_shared<SpecOptions>();
  command.AddOption("FIELD", options->field,
                    "a path such as train.optimizer, which shows what is below it, or a word to search for in names "
                    "and meanings; default: all fields");
  command.AddFlag("--json", options->json, "print JSON: a list of fields");
  command.AddFlag("--schema", options->schema, "print the JSON Schema of specs, for editors (docs/spec.md)");
  command.AddFlag("--proto", options->proto, "print spec.proto, for editors (docs/spec.md)");
  command.Footer(
      "A field is written as `path = default`, with its type and range in parentheses. Ranges are those of the check "
      "that every spec\n"
      "passes; a bound that depends on other fields is not shown. Fields without a constant default say what they are "
      "if left out.\n"
      "`twofold list` has the names of models, clusters, fabrics and frameworks.\n"
      "Exit status: 0 fine; 1 stdout cannot be written; 2 there is no such field.\n"
      "\nExamples:\n"
      "  twofold spec parallel.sharding\n"
      "  twofold spec train.optimizer\n"
      "  twofold spec bucket                                search\n"
      "  twofold spec --schema > spec.schema.json");
  command.OnParsed([options, &exit_status] {
    const absl::Status status = Print(*options);
    exit_status = status.ok() ? kExitFine : kExitWrongInput;
    if (!status.ok()) LogError(status.message());
  });
}

}  // namespace twofold
