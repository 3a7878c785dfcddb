#include "experiments/program/plan/layout.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/fields.h"

namespace twofold::plan {
namespace {

using spec::Parallel;

// Names and values of all that is not plain.
using Words = std::vector<std::pair<std::string, std::string>>;
Words WordsOf(const Layout& l) {
  Words words;
  const auto add = [&words](const char* name, const auto& value, bool is_plain) {
    if (!is_plain) words.emplace_back(name, StrCat(value));
  };
  add("tp", l.tp, false), add("pp", l.pp, false), add("cp", l.cp, l.cp == 1), add("ep", l.ep, l.ep == 1);
  add("dp", l.dp, false);
  add("", Parallel::Sharding_Name(l.sharding), l.sharding == Parallel::NO_SHARD);
  add("of", l.shard_group, l.shard_group == 0);
  const bool usual = l.schedule == Parallel::ONE_F_ONE_B || l.schedule == Parallel::INTERLEAVED_ONE_F_ONE_B;
  add("", Parallel::PipelineSchedule_Name(l.schedule), usual);
  add("v", l.virtual_stages, l.virtual_stages == 1);
  add("mb", l.micro_batch, false);
  add("recompute", l.recompute, l.recompute == 0);
  add("", "selective", !l.selective);
  add("", Parallel::Offload_Name(l.offload), l.offload == Parallel::NO_OFFLOAD);
  add("", "sp", !l.sequence_parallel);
  add("bucket", NumberText(l.bucket_mib), l.bucket_mib == Layout().bucket_mib);
  add("order", StrCat("\"", l.order, "\""), l.order == Layout().order);
  add("codec", l.codec, l.codec.empty());
  return words;
}

std::string Text(const std::pair<std::string, std::string>& word) {
  return word.first.empty() ? word.second : StrCat(word.first, " ", word.second);
}

void SetCodec(const std::string& name, spec::Compression& compression) {
  const auto* field = spec::Compression::descriptor()->FindFieldByName(name);
  TWOFOLD_CHECK(field != nullptr, name);
  compression.GetReflection()->MutableMessage(&compression, field);
}

}  // namespace

void Apply(const Layout& l, spec::Spec& spec) {
  const Layout plain;
  Parallel& p = *spec.mutable_parallel();
  p.set_dp(l.dp), p.set_tp(l.tp), p.set_pp(l.pp);
  if (l.cp > 1) p.set_cp(l.cp);
  if (l.ep > 1) p.set_ep(l.ep);
  if (l.sharding != plain.sharding) p.set_sharding(l.sharding);
  if (l.shard_group > 0) p.set_shard_group(l.shard_group);
  if (l.schedule != plain.schedule) p.set_schedule(l.schedule);
  if (l.virtual_stages > 1) p.set_virtual_stages(l.virtual_stages);
  if (l.offload != plain.offload) p.set_offload(l.offload);
  if (l.sequence_parallel) p.set_sequence_parallel(true);
  if (l.bucket_mib != plain.bucket_mib) p.set_bucket_mib(l.bucket_mib);
  if (l.order != plain.order) p.set_order(l.order);
  if (!l.codec.empty()) SetCodec(l.codec, *p.mutable_compression());
  spec.mutable_train()->set_micro_batch(l.micro_batch);
  if (l.recompute == 0 && !spec.train().has_activation_checkpointing()) return;
  auto& recompute = *spec.mutable_train()->mutable_activation_checkpointing();
  recompute.set_every(l.recompute);
  recompute.clear_recompute();
  if (l.selective) recompute.set_recompute(spec::ActivationCheckpointing::SELECTIVE);
  // It costs nothing; other frameworks do what their profiles say.
  if (l.recompute > 0 && !l.selective && !recompute.has_early_stop() && spec.framework() == spec::TWOFOLD)
    recompute.set_early_stop(true);
}

std::string ToLine(const Layout& l) {
  std::string order = l.order;
  std::replace(order.begin(), order.end(), ' ', '-');
  return StrCat(l.tp, " ", l.pp, " ", l.cp, " ", l.ep, " ", l.dp, " ", static_cast<int>(l.sharding), " ", l.shard_group,
                " ", static_cast<int>(l.schedule), " ", l.virtual_stages, " ", l.micro_batch, " ", l.recompute, " ",
                l.selective, " ", static_cast<int>(l.offload), " ", l.sequence_parallel, " ", NumberText(l.bucket_mib),
                " ", order, " ", l.codec.empty() ? "-" : l.codec);
}

absl::StatusOr<Layout> FromLine(const std::string& line) {
  Layout l;
  std::istringstream in(line);
  int sharding = 0, schedule = 0, offload = 0;
  in >> l.tp >> l.pp >> l.cp >> l.ep >> l.dp >> sharding >> l.shard_group >> schedule >> l.virtual_stages >>
      l.micro_batch >> l.recompute >> l.selective >> offload >> l.sequence_parallel >> l.bucket_mib >> l.order >>
      l.codec;
  if (!in || !Parallel::Sharding_IsValid(sharding) || !Parallel::PipelineSchedule_IsValid(schedule) ||
      !Parallel::Offload_IsValid(offload))
    return InvalidArgument("\"", line, "\" is not a layout");
  l.sharding = static_cast<Parallel::Sharding>(sharding);
  l.schedule = static_cast<Parallel::PipelineSchedule>(schedule);
  l.offload = static_cast<Parallel::Offload>(offload);
  std::replace(l.order.begin(), l.order.end(), '-', ' ');
  if (l.codec == "-") l.codec.clear();
  return l;
}

std::string Describe(const Layout& layout) {
  std::string text;
  for (const auto& word : WordsOf(layout)) StrAppend(&text, text.empty() ? "" : " ", Text(word));
  return text;
}

std::string Difference(const Layout& layout, const Layout& other) {
  const Words own = WordsOf(layout), others = WordsOf(other);
  const auto without = [](const Words& of, const Words& these) {
    std::string text;
    for (const auto& word : of) {
      bool known = false;
      for (const auto& same : these) known = known || same == word;
      if (!known) StrAppend(&text, text.empty() ? "" : " ", Text(word));
    }
    return text;
  };
  const std::string has = without(own, others), lacks = without(others, own);
  return has.empty()     ? StrCat("without ", lacks)
         : lacks.empty() ? StrCat("with ", has)
                         : StrCat(has, " instead of ", lacks);
}

}  // namespace twofold::plan
