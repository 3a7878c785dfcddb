#include "experiments/program/describe/template.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_split.h"
#include "core/base/strings.h"
#include "experiments/program/cli/wrap.h"

namespace twofold {
namespace {

constexpr size_t kWidth = 100;

struct Line {
  std::string path, value;
  bool active = true;  // else a comment
};

std::vector<Line> LinesOf(const TemplateChoice& c) {
  const bool predicts = !c.cluster.empty();
  std::vector<Line> lines = {{"name", StrCat("\"", c.model, "\"")}, {"model.preset", StrCat("\"", c.model, "\"")}};
  if (c.tokens) lines.push_back({"data", "{ tokens { path: \"train.bin\" } }", false});
  lines.insert(lines.end(), {{"train.steps", "20"},
                             {"train.micro_batch", c.gpus ? "1" : "4"},
                             {"train.global_batch", StrCat(c.ranks * (c.gpus ? 1 : 4)), false},
                             {"train.optimizer.adamw.lr", "3e-4"},
                             {"train.precision.parameter", c.gpus ? "BF16" : "F32"},
                             {"train.schedule", "{ cosine { } warmup_steps: 10 }", false},
                             {"train.checkpoint", "{ every_steps: 10 }", false}});
  if (c.tokens && c.gpus) lines.push_back({"train.activation_checkpointing.every", "1"});
  if (c.tokens && !c.gpus) lines.push_back({"train.activation_checkpointing", "{ every: 1 }", false});
  lines.insert(lines.end(), {{"parallel.dp", StrCat(c.ranks)},
                             {"parallel.tp", "1"},
                             {"parallel.pp", "1"},
                             {"parallel.sharding", c.gpus ? "FULL_SHARD" : "NO_SHARD"}});
  if (predicts) {
    lines.push_back({"fabric.simulated.cluster", StrCat("\"", c.cluster, "\"")});
    lines.push_back({"fabric.simulated.nodes", "1", false});
  } else {
    lines.push_back({"fabric.in_memory.link_gbps", "0", false});
    lines.push_back({"device", "CPU", false});
  }
  if (!c.framework.empty()) lines.push_back({"framework", c.framework});
  return lines;
}

class Writer {
 public:
  explicit Writer(const std::vector<SpecField>& fields) {
    for (const SpecField& field : fields) fields_[field.path] = &field;
  }
  void Write(const std::vector<Line>& lines) {
    for (const Line& line : lines) {
      std::vector<std::string> names = absl::StrSplit(line.path, '.');
      const std::string name = names.back();
      names.pop_back();
      Enter(names);
      const SpecField& field = *fields_.at(line.path);
      const bool block = field.field->message_type() != nullptr;
      Comment(field);
      text += StrCat(Indent(), line.active ? "" : "# ", name, block ? " " : ": ", line.value, "\n");
    }
    Enter({});
  }
  std::string text;

 private:
  std::string Indent() const { return std::string(2 * open_.size(), ' '); }
  // Closes blocks and opens others, so that exactly those of `names` are open.
  void Enter(const std::vector<std::string>& names) {
    size_t same = 0;
    while (same < std::min(names.size(), open_.size()) && names[same] == open_[same]) ++same;
    while (open_.size() > same) {
      open_.pop_back();
      text += StrCat(Indent(), "}\n");
    }
    while (open_.size() < names.size()) {
      std::string path;
      for (size_t i = 0; i <= open_.size(); ++i) path += StrCat(i == 0 ? "" : ".", names[i]);
      if (open_.empty()) text += "\n";
      Comment(*fields_.at(path));
      text += StrCat(Indent(), names[open_.size()], " {\n");
      open_.push_back(names[open_.size()]);
    }
  }
  void Comment(const SpecField& field) {
    const std::string begin = StrCat(Indent(), "# ");
    const std::string& meaning = field.block_meaning.empty() ? field.meaning : field.block_meaning;
    for (const auto line : absl::StrSplit(Filled(meaning, kWidth - begin.size(), 0, 0), '\n'))
      text += StrCat(begin, line, "\n");
  }

  std::map<std::string, const SpecField*> fields_;
  std::vector<std::string> open_;
};

}  // namespace

std::string SpecTemplate(const std::vector<SpecField>& fields, const TemplateChoice& choice) {
  Writer writer(fields);
  writer.text =
      "# proto-file: core/proto/spec.proto\n"
      "# proto-message: twofold.spec.Spec\n"
      "#\n"
      "# Remove the # of a field to give it that value. `twofold spec` explains these fields and all others,\n"
      "# `twofold run FILE --check` says whether a spec is right, and `twofold memory FILE` what it needs.\n\n";
  writer.Write(LinesOf(choice));
  return std::move(writer.text);
}

}  // namespace twofold
