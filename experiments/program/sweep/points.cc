#include "experiments/program/sweep/points.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/fabric_name.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/set_files.h"
#include "experiments/program/spec/spec.h"

namespace twofold::sweep {
namespace {

constexpr std::string_view kGlobalBatch = "train.global_batch", kMicroBatch = "train.micro_batch";
constexpr std::string_view kSimulatedPrefix = "fabric.simulated";

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string PathOfSet(const std::string& set) { return set.substr(0, set.find('=')); }

// Whether one is the other, or a block around it.
bool Overlap(const std::string& a, const std::string& b) {
  return a == b || absl::StartsWith(a, StrCat(b, ".")) || absl::StartsWith(b, StrCat(a, "."));
}

bool IsOfSimulated(const std::string& path) { return Overlap(path, std::string(kSimulatedPrefix)) && path != "fabric"; }
bool IsOfOtherFabric(const std::string& path) {
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  return names.size() > 1 && names[0] == "fabric" && names[1] != "simulated" && names[1] != "timeout_s" &&
         names[1] != "rendezvous";
}

// A spec as its file and `sets` state it, before defaults.
absl::StatusOr<spec::Spec> Stated(const std::string& text, const std::string& file,
                                  const std::vector<std::string>& sets) {
  absl::StatusOr<spec::Spec> spec = ParseSpec(text, file);
  for (const std::string& set : sets) {
    if (!spec.ok()) return spec;
    if (const absl::Status status = ApplySet(*spec, set); !status.ok()) return status;
  }
  return spec;
}

absl::Status CheckVaried(const std::vector<Varied>& varied) {
  for (size_t v = 0; v < varied.size(); ++v) {
    std::set<std::string> values;
    for (const std::string& value : varied[v].values) {
      const std::string set = StrCat(varied[v].path, "=", value);
      if (!values.insert(value).second) return InvalidArgument("--vary=", set, ": ", value, " is listed twice");
      spec::Spec any;
      if (const absl::Status fine = ApplySet(any, set); !fine.ok())
        return InvalidArgument(absl::StrReplaceAll(fine.message(), {{StrCat("--set ", set), StrCat("--vary=", set)}}));
    }
    for (size_t other = 0; other < v; ++other) {
      if (Overlap(varied[v].path, varied[other].path))
        return InvalidArgument("--vary=", varied[v].path, ": is a part of --vary=", varied[other].path,
                               ", or has it as a part; vary only one of them");
    }
  }
  return absl::OkStatus();
}

// The value of a single field, as --set takes it.
absl::StatusOr<std::string> ValueAt(const spec::Spec& spec, const std::string& path) {
  const Message* message = &spec;
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    const FieldDescriptor* block = message->GetDescriptor()->FindFieldByName(names[i]);
    if (block->is_repeated() || !message->GetReflection()->HasField(*message, block))
      return InvalidArgument("--fixed=", path, ": the spec has no ", names[i], " to take the value from");
    message = &message->GetReflection()->GetMessage(*message, block);
  }
  const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(names.back());
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(*message, field, -1, &text);
  return text;
}

absl::Status CheckFixed(const Asked& asked, const Points& sweep) {
  for (const std::string& path : asked.fixed) {
    const std::vector<std::string> names = absl::StrSplit(path, '.');
    const FieldDescriptor* field = FindField(*spec::Spec::descriptor(), names);
    if (field == nullptr) {
      spec::Spec any;  // says what is known
      const absl::Status why = ApplySet(any, StrCat(path, "=0"));
      return InvalidArgument(absl::StrReplaceAll(why.message(), {{StrCat("--set ", path, "=0"), "--fixed"}}));
    }
    if (field->is_repeated() || field->message_type() != nullptr)
      return InvalidArgument("--fixed=", path, ": must be a field with a single value, such as ", kGlobalBatch);
    for (const Varied& varied : sweep.varied) {
      if (Overlap(varied.path, path))
        return InvalidArgument("--fixed=", path, ": cannot stay the same, because --vary=", varied.path,
                               " changes it; leave one of them out");
    }
    const bool follows = (sweep.scaling == Scaling::kStrong && path == kMicroBatch) ||
                         (sweep.scaling == Scaling::kWeak && path == kGlobalBatch);
    if (follows)
      return InvalidArgument("--fixed=", path, ": follows from --scaling=", asked.scaling, "; leave one of them out");
    if (sweep.measure && sweep.predict && (IsOfSimulated(path) || IsOfOtherFabric(path)))
      return InvalidArgument("--fixed=", path, ": only predictions or only measurements have it; use --set");
  }
  return absl::OkStatus();
}

absl::Status CheckScaling(const Asked& asked, Points& sweep) {
  if (asked.scaling.empty()) return absl::OkStatus();
  if (asked.scaling != "strong" && asked.scaling != "weak")
    return InvalidArgument("--scaling=", asked.scaling, ": must be strong or weak");
  sweep.scaling = asked.scaling == "strong" ? Scaling::kStrong : Scaling::kWeak;
  const std::string_view follows = sweep.scaling == Scaling::kStrong ? kMicroBatch : kGlobalBatch;
  for (const Varied& varied : sweep.varied) {
    if (varied.path == follows)
      return InvalidArgument("--vary=", follows, ": follows from --scaling=", asked.scaling, "; leave one of them out");
  }
  return absl::OkStatus();
}

absl::Status CheckSides(const Asked& asked, const std::string& spec_fabric, Points& sweep) {
  sweep.predict = asked.predict || (!asked.measure && spec_fabric == "simulated");
  sweep.measure = asked.measure || (!asked.predict && spec_fabric != "simulated");
  if (sweep.measure && asked.fabric == "simulated")
    return InvalidArgument(
        "--fabric=simulated: it only predicts; give the fabric to measure on, or leave out --measured");
  if (sweep.measure) sweep.fabric = spec_fabric == "simulated" ? "in_memory" : spec_fabric;
  for (const Varied& varied : sweep.varied) {
    if (sweep.measure && IsOfSimulated(varied.path))
      return InvalidArgument("--vary=", varied.path, ": measurements do not have this field; leave out --measured");
    if (sweep.predict && IsOfOtherFabric(varied.path))
      return InvalidArgument("--vary=", varied.path, ": predictions do not have this field; leave out --predicted");
  }
  return absl::OkStatus();
}

// ---- One point ----

// What predictions need to have the links of the measurements.
std::vector<std::string> LinksOf(const spec::Spec& stated, const std::string& fabric,
                                 const std::vector<std::string>& sets) {
  const bool chosen = std::any_of(sets.begin(), sets.end(), [](const std::string& set) {
    return absl::StartsWith(set, "fabric.simulated.cluster") || absl::StartsWith(set, "fabric.simulated.link");
  });
  std::vector<std::string> links;
  if (chosen || stated.fabric().has_simulated()) return links;
  const spec::InMemory& slow = stated.fabric().in_memory();
  const auto number = [&](const char* name, bool has, double value) {
    if (has) links.push_back(StrCat("fabric.simulated.", name, "=", NumberText(value)));
  };
  if (fabric == "mpi" || fabric == "gloo") links.push_back(StrCat("fabric.simulated.links=", fabric));
  if (fabric != "in_memory") return links;
  number("link_gbps", slow.has_link_gbps(), slow.link_gbps());
  number("latency_us", slow.has_latency_us(), slow.latency_us());
  if (slow.has_sites()) links.push_back(StrCat("fabric.simulated.sites={", slow.sites().ShortDebugString(), "}"));
  for (const spec::Straggler& straggler : slow.stragglers()) {
    const std::string one = StrCat("{", straggler.ShortDebugString(), "}");
    if (!links.empty() && absl::StartsWith(links.back(), "fabric.simulated.stragglers"))
      links.back().insert(links.back().size() - 1, StrCat(", ", one));
    else
      links.push_back(StrCat("fabric.simulated.stragglers=[", one, "]"));
  }
  return links;
}

std::vector<std::string> Without(const std::vector<std::string>& sets, bool (*left_out)(const std::string& path)) {
  std::vector<std::string> out;
  std::copy_if(sets.begin(), sets.end(), std::back_inserter(out),
               [&](const std::string& set) { return !left_out(PathOfSet(set)); });
  return out;
}

// Errors name the fields that make the point by their values alone: they come from --vary and --scaling.
absl::StatusOr<spec::Spec> Resolved(const std::string& text, const Asked& asked, const std::string& fabric,
                                    const std::vector<std::string>& sets, const std::vector<std::string>& own) {
  absl::StatusOr<spec::Spec> spec = ResolveSpec(text, asked.file, fabric, sets);
  if (spec.ok()) return spec;
  std::string why(spec.status().message());
  for (const std::string& set : own) why = absl::StrReplaceAll(why, {{StrCat("--set ", set), set}});
  return absl::Status(spec.status().code(), why);
}

struct Base {
  std::string text;
  const Asked& asked;
  std::string fabric;             // that predictions imitate
  std::vector<std::string> sets;  // of --set and --fixed
  int64_t micro_batches = 1;
};

absl::StatusOr<std::vector<std::string>> FollowsAt(const Base& base, Scaling scaling,
                                                   const std::vector<std::string>& sets) {
  std::vector<std::string> follows;
  if (scaling == Scaling::kNone) return follows;
  const absl::StatusOr<spec::Spec> stated = Stated(base.text, base.asked.file, sets);
  if (!stated.ok()) return stated.status();
  const int64_t dp = stated->parallel().dp();
  const spec::Train& train = stated->train();
  if (dp < 1) return follows;  // the spec is refused for it
  if (scaling == Scaling::kWeak) {
    follows.push_back(StrCat(kGlobalBatch, "=", dp * train.micro_batch() * base.micro_batches));
    return follows;
  }
  const absl::StatusOr<int64_t> micro = StrongMicroBatch(train.global_batch(), dp, base.micro_batches);
  if (!micro.ok()) return micro.status();
  follows = {StrCat(kMicroBatch, "=", *micro)};
  return follows;
}

Point PointAt(const Base& base, const Points& sweep, std::vector<std::string> values) {
  Point point{.values = std::move(values)};
  std::vector<std::string> sets = base.sets, own;
  for (size_t v = 0; v < sweep.varied.size(); ++v) own.push_back(StrCat(sweep.varied[v].path, "=", point.values[v]));
  sets.insert(sets.end(), own.begin(), own.end());
  const auto refuse = [&](const absl::Status& why) {
    if (sweep.predict) point.predicted = why;
    if (sweep.measure) point.measured = why;
    return point;
  };
  absl::StatusOr<std::vector<std::string>> follows = FollowsAt(base, sweep.scaling, sets);
  if (!follows.ok()) return refuse(follows.status());
  point.follows = *std::move(follows);
  sets.insert(sets.end(), point.follows.begin(), point.follows.end());
  own.insert(own.end(), point.follows.begin(), point.follows.end());
  if (sweep.predict) {
    const absl::StatusOr<spec::Spec> stated =
        Stated(base.text, base.asked.file, Without(base.asked.sets, IsOfSimulated));
    std::vector<std::string> all = stated.ok() ? LinksOf(*stated, base.fabric, sets) : std::vector<std::string>();
    const std::vector<std::string> rest = Without(sets, IsOfOtherFabric);
    all.insert(all.end(), rest.begin(), rest.end());
    point.predicted = Resolved(base.text, base.asked, "simulated", all, own);
  }
  if (sweep.measure) point.measured = Resolved(base.text, base.asked, sweep.fabric, Without(sets, IsOfSimulated), own);
  return point;
}

// ---- All of them ----

absl::StatusOr<int64_t> CountOf(const Asked& asked, const Points& sweep) {
  int64_t count = 1;
  for (const Varied& varied : sweep.varied) {
    count *= static_cast<int64_t>(varied.values.size());
    if (count > kMostVariants)
      return InvalidArgument("--vary: more than ", kMostVariants, " points; vary fewer fields, or fewer values");
  }
  if (sweep.measure && count * asked.repeats > kMostMeasurements)
    return InvalidArgument("--vary: ", count * asked.repeats, " measurements (", count, " points, ", asked.repeats,
                           " times each) are more than ", kMostMeasurements,
                           "; vary fewer fields or values, or use fewer --repeats");
  return count;
}

// The number of micro-batches that the spec states, and `fixed` fields as sets.
absl::Status CompleteBase(const Points& sweep, Base& base) {
  const Asked& asked = base.asked;
  const absl::StatusOr<spec::Spec> stated = Stated(base.text, asked.file, base.sets);
  if (!stated.ok()) return stated.status();
  const spec::Train& train = stated->train();
  const int64_t share = std::max<int64_t>(1, stated->parallel().dp() * train.micro_batch());
  if (sweep.scaling != Scaling::kNone && train.has_global_batch() && train.has_micro_batch()) {
    if (train.global_batch() % share != 0)
      return InvalidArgument(asked.file, ": ", kGlobalBatch, ": ", train.global_batch(),
                             " is no whole number of micro-batches of ", train.micro_batch(), " on ",
                             stated->parallel().dp(), " replicas, and --scaling=", asked.scaling,
                             " keeps their number; use a multiple of ", share);
    base.micro_batches = std::max<int64_t>(1, train.global_batch() / share);
  }
  const bool varies_global =
      std::any_of(sweep.varied.begin(), sweep.varied.end(), [](const Varied& v) { return v.path == kGlobalBatch; });
  if (sweep.scaling == Scaling::kStrong && !train.has_global_batch() && !varies_global)
    base.sets.push_back(StrCat(kGlobalBatch, "=", share));  // its default
  if (asked.fixed.empty()) return absl::OkStatus();
  const absl::StatusOr<spec::Spec> whole =
      ResolveSpec(base.text, asked.file, sweep.predict ? "simulated" : sweep.fabric,
                  Without(base.sets, sweep.predict ? IsOfOtherFabric : IsOfSimulated));
  if (!whole.ok()) return whole.status();
  for (const std::string& path : asked.fixed) {
    const absl::StatusOr<std::string> value = ValueAt(*whole, path);
    if (!value.ok()) return value.status();
    base.sets.push_back(StrCat(path, "=", *value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> StrongMicroBatch(int64_t global_batch, int64_t dp, int64_t micro_batches) {
  const int64_t shares = dp * micro_batches;
  if (global_batch >= shares && global_batch % shares == 0) return global_batch / shares;
  const int64_t below = global_batch / shares * shares;
  return InvalidArgument(
      kGlobalBatch, "=", global_batch, " does not divide among ", dp, dp == 1 ? " replica" : " replicas",
      micro_batches == 1 ? "" : StrCat(" of ", micro_batches, " micro-batches each"), " (parallel.dp=", dp,
      "); use a multiple of ", shares, ", such as ", below > 0 ? StrCat(below, " or ") : "", below + shares);
}

absl::StatusOr<Points> PointsOf(const std::string& text, const Asked& given) {
  absl::StatusOr<std::vector<std::string>> sets = ExpandSets(given.sets);
  if (!sets.ok()) return sets.status();
  Asked asked = given;
  asked.sets = *std::move(sets);
  absl::StatusOr<std::vector<Varied>> varied = ParseVaried(asked.varied);
  if (!varied.ok()) return varied.status();
  if (varied->empty())
    return InvalidArgument("--vary is missing: give a field and its values, such as --vary=parallel.dp=1,2,4");
  Points sweep{.varied = *std::move(varied)};
  if (const absl::Status fine = CheckVaried(sweep.varied); !fine.ok()) return fine;
  if (asked.repeats < 1) return InvalidArgument("--repeats must be at least 1 (got ", asked.repeats, ")");
  absl::StatusOr<spec::Spec> stated = Stated(text, asked.file, Without(asked.sets, IsOfSimulated));
  if (stated.ok() && !asked.fabric.empty()) {
    if (const absl::Status known = ApplyFabric(*stated, asked.fabric); !known.ok()) return known;
  }
  if (!stated.ok()) return stated.status();
  const bool simulated = std::any_of(asked.sets.begin(), asked.sets.end(),
                                     [](const std::string& set) { return IsOfSimulated(PathOfSet(set)); });
  const std::string fabric = FabricName(*stated);
  const bool predicts = simulated && asked.fabric.empty() && stated->fabric().kind_case() == spec::Fabric::KIND_NOT_SET;
  if (const absl::Status fine = CheckSides(asked, predicts ? "simulated" : fabric, sweep); !fine.ok()) return fine;
  Base base{.text = text, .asked = asked, .fabric = sweep.measure ? sweep.fabric : fabric, .sets = asked.sets};
  if (const absl::Status fine = CheckScaling(asked, sweep); !fine.ok()) return fine;
  if (const absl::Status fine = CheckFixed(asked, sweep); !fine.ok()) return fine;
  const absl::StatusOr<int64_t> count = CountOf(asked, sweep);
  if (!count.ok()) return count.status();
  if (std::none_of(asked.sets.begin(), asked.sets.end(),
                   [](const std::string& set) { return absl::StartsWith(set, "trace"); }))
    base.sets.insert(base.sets.begin(), "trace.enabled=false");
  if (const absl::Status fine = CompleteBase(sweep, base); !fine.ok()) return fine;
  bool any = false;
  for (int64_t i = 0; i < *count; ++i) {
    std::vector<std::string> values(sweep.varied.size());
    int64_t rest = i;
    for (size_t v = sweep.varied.size(); v-- > 0;) {
      const auto choices = static_cast<int64_t>(sweep.varied[v].values.size());
      values[v] = sweep.varied[v].values[static_cast<size_t>(rest % choices)];
      rest /= choices;
    }
    Point point = PointAt(base, sweep, std::move(values));
    for (const auto* side : {&point.predicted, &point.measured}) {
      if (!side->has_value() || !(*side)->ok()) continue;
      any = true;
      sweep.name = (**side)->name();
    }
    sweep.points.push_back(std::move(point));
  }
  if (any) return sweep;
  const Point& first = sweep.points.front();
  return first.measured.has_value() ? first.measured->status() : first.predicted->status();
}

}  // namespace twofold::sweep
