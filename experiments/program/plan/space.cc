#include "experiments/program/plan/space.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"

namespace twofold::plan {
namespace {

using spec::Parallel;

std::vector<int64_t> DivisorsOf(int64_t n) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= n; ++i) {
    if (n % i == 0) divisors.push_back(i);
  }
  return divisors;
}

template <class T>
using Values = std::vector<T>;

// The given value alone, or all.
template <class T>
Values<T> Free(bool fixed, T given, Values<T> all) {
  return fixed ? Values<T>{given} : std::move(all);
}

// The reason of a refusal: the first problem's field and text, with its numbers left out.
std::string ReasonOf(const std::string& message, const std::string& file) {
  std::string line = message.substr(0, message.find('\n'));
  if (line.starts_with(file + ": ")) line = line.substr(file.size() + 2);
  std::string reason;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(line[i])) != 0;
    const bool part_of_word =
        i > 0 && (std::isalpha(static_cast<unsigned char>(line[i - 1])) != 0 || line[i - 1] == '_');
    if (!digit || part_of_word) {
      reason += line[i];
    } else if (reason.empty() || reason.back() != '#') {
      reason += '#';
    }
  }
  const size_t advice = reason.find("; use");
  return advice == std::string::npos ? reason : reason.substr(0, advice);
}

// The axes of `order` that have several ranks: all that matters of it.
std::string OrderThatMatters(const std::string& order, const Layout& l) {
  std::string text;
  for (const absl::string_view axis : absl::StrSplit(order, ' ', absl::SkipEmpty())) {
    const int64_t extent = axis == "pp" ? l.pp : axis == "dp" ? l.dp : axis == "cp" ? l.cp : l.tp;
    if (extent > 1) StrAppend(&text, axis, " ");
  }
  return text;
}

class Enumeration {
 public:
  Enumeration(const Question& question, const Slice& slice, const Visit& visit)
      : q_(question), p_(q_.given.parallel()), train_(q_.given.train()), slice_(slice), visit_(visit) {
    const std::shared_ptr<const Model> model = ModelOf(q_.given.model());
    if (model == nullptr) return;
    shape_ = model->shape();
    sequences_ = model->input().kind == ModelInput::kTokens;
  }

  Space Run() {
    const int64_t n = q_.ranks;
    Layout l;
    for (const int64_t tp : Free(p_.has_tp(), p_.tp(), DivisorsOf(n)))
      for (const int64_t pp : Free(p_.has_pp(), p_.pp(), DivisorsOf(n)))
        for (const int64_t cp : Free(p_.has_cp(), p_.cp(), sequences_ ? DivisorsOf(n) : Values<int64_t>{1})) {
          if (n % (tp * pp * cp) != 0) continue;
          l.tp = tp, l.pp = pp, l.cp = cp, l.dp = n / (tp * pp * cp);
          if (p_.has_dp() && p_.dp() != l.dp) continue;
          for (const int64_t ep :
               Free(p_.has_ep(), p_.ep(), shape_.experts > 0 ? DivisorsOf(l.dp) : Values<int64_t>{1})) {
            l.ep = ep;
            Schedules(l);
          }
        }
    return std::move(space_);
  }

 private:
  void Schedules(Layout& l) {
    Values<std::pair<Parallel::PipelineSchedule, int64_t>> all = {{Parallel::ONE_F_ONE_B, 1}};
    if (l.pp > 1) {
      all.insert(all.end(), {{Parallel::GPIPE, 1}, {Parallel::ZERO_BUBBLE_H1, 1}});
      for (const int64_t v : VirtualStages(l.pp)) all.emplace_back(Parallel::INTERLEAVED_ONE_F_ONE_B, v);
    }
    if (p_.has_virtual_stages() && p_.virtual_stages() > 1)
      all.emplace_back(Parallel::INTERLEAVED_ONE_F_ONE_B, p_.virtual_stages());
    std::set<std::pair<int, int64_t>> seen;
    for (const auto& [schedule, v] : all) {
      if (p_.has_schedule() && schedule != p_.schedule()) continue;
      if (p_.has_virtual_stages() && v != p_.virtual_stages()) continue;
      if (!seen.emplace(schedule, v).second) continue;
      l.schedule = schedule, l.virtual_stages = v;
      for (const int64_t mb : Free(train_.has_micro_batch(), train_.micro_batch(), {1, 2, 4, 8}))
        for (const bool sp : Free(p_.has_sequence_parallel(), p_.sequence_parallel(),
                                  l.tp > 1 && sequences_ ? Values<bool>{false, true} : Values<bool>{false})) {
          l.micro_batch = mb, l.sequence_parallel = sp;
          if (IsMyTurn(l)) Rest(l);
        }
    }
    l.schedule = Parallel::ONE_F_ONE_B, l.virtual_stages = 1;
  }

  Values<int64_t> VirtualStages(int64_t pp) const {
    Values<int64_t> equal;
    for (int64_t v = 2; v <= 8 && pp * v <= shape_.layers; ++v) {
      if (shape_.layers % (pp * v) == 0) equal.push_back(v);
    }
    if (!equal.empty()) return equal;
    return pp * 3 <= shape_.layers ? Values<int64_t>{2, 3} : Values<int64_t>{2};
  }

  // All variants of what remains; the plainest first.
  Values<Layout> VariantsOf(const Layout& l) const {
    Values<Layout> all;
    Layout v = l;
    for (const std::string& order : Orders(l))
      for (const auto& [sharding, group] : Shardings(l))
        for (const Parallel::Offload offload : Offloads(sharding))
          for (const auto& [every, selective] : Recomputations())
            for (const double bucket : Buckets(l, sharding))
              for (const std::string& codec : Codecs()) {
                v.order = order, v.sharding = sharding, v.shard_group = group, v.offload = offload;
                v.recompute = every, v.selective = selective, v.bucket_mib = bucket, v.codec = codec;
                all.push_back(v);
              }
    return all;
  }
  Values<std::string> Orders(const Layout& l) const {
    if (p_.has_order()) return {p_.order()};
    Values<std::string> orders;
    std::set<std::string> seen;
    for (const char* order : {"pp dp cp tp", "dp pp cp tp"}) {
      if (seen.insert(OrderThatMatters(order, l)).second) orders.emplace_back(order);
    }
    return orders;
  }
  Values<std::pair<Parallel::Sharding, int64_t>> Shardings(const Layout& l) const {
    Values<std::pair<Parallel::Sharding, int64_t>> all;
    const auto add = [&](Parallel::Sharding s, int64_t group) {
      if (p_.has_sharding() && s != p_.sharding()) return;
      if (p_.has_shard_group() && s == Parallel::HYBRID_SHARD && group != p_.shard_group()) return;
      all.emplace_back(s, group);
    };
    add(Parallel::NO_SHARD, 0);
    if (l.dp * l.cp > 1 || p_.has_sharding())
      add(Parallel::ZERO_1, 0), add(Parallel::ZERO_2, 0), add(Parallel::ZERO_3, 0);
    std::set<int64_t> groups = {32};
    int64_t near = 1;  // as many ranks along dp as a node has
    for (const int64_t d : DivisorsOf(l.dp)) {
      if (d * l.cp * l.tp <= q_.ranks_per_node) near = d;
    }
    groups.insert(near);
    if (p_.has_shard_group()) groups = {p_.shard_group()};
    for (const int64_t g : groups) {
      if (p_.has_shard_group() || (g > 1 && g < l.dp && l.dp % g == 0)) add(Parallel::HYBRID_SHARD, g);
    }
    return all;
  }
  Values<Parallel::Offload> Offloads(Parallel::Sharding sharding) const {
    Values<Parallel::Offload> all = {Parallel::NO_OFFLOAD, Parallel::OFFLOAD_OPTIMIZER};
    if (sharding == Parallel::FULL_SHARD || sharding == Parallel::HYBRID_SHARD) all.push_back(Parallel::OFFLOAD_ALL);
    return Free(p_.has_offload(), p_.offload(), std::move(all));
  }
  Values<std::pair<int64_t, bool>> Recomputations() const {
    const spec::ActivationCheckpointing& given = train_.activation_checkpointing();
    if (train_.has_activation_checkpointing())
      return {{given.has_every() ? given.every() : 1, given.recompute() == spec::ActivationCheckpointing::SELECTIVE}};
    Values<std::pair<int64_t, bool>> all = {{0, false}};
    if (!sequences_) return all;
    all.emplace_back(1, false);
    if (q_.given.model().attention() == spec::Model::UNFUSED) all.emplace_back(1, true);
    return all;
  }
  Values<double> Buckets(const Layout& l, Parallel::Sharding sharding) const {
    if (p_.has_bucket_mib()) return {p_.bucket_mib()};
    if (sharding != Parallel::NO_SHARD || l.dp * l.cp == 1) return {Layout().bucket_mib};
    return {Layout().bucket_mib, 100};
  }
  Values<std::string> Codecs() const {
    Values<std::string> all = {""};
    if (!p_.has_compression()) all.insert(all.end(), q_.codecs.begin(), q_.codecs.end());
    return all;
  }

  // Those that share these have the same number of a turn.
  bool IsMyTurn(const Layout& l) {
    const auto next = static_cast<int>(turns_.size());
    const int turn = turns_.try_emplace({l.tp, l.cp, l.ep, l.micro_batch, l.sequence_parallel}, next).first->second;
    return turn % slice_.of == slice_.index;
  }

  void Rest(const Layout& l) {
    const Values<Layout> all = VariantsOf(l);
    for (size_t i = 0; i < all.size(); ++i) {
      const bool refused = Refuses(all[i], i == 0 ? static_cast<int64_t>(all.size()) : 1);
      if (refused && i == 0) return;
    }
  }

  // Counts `count` combinations if this one is refused; visits it if not.
  bool Refuses(const Layout& l, int64_t count) {
    const spec::Spec spec = SpecOf(q_, l);
    const absl::Status status = Validate(spec, q_.file);
    if (status.ok()) {
      ++space_.legal, ++space_.combinations;
      visit_(l, spec);
      return false;
    }
    const std::string message(status.message());
    Refusal& refusal = space_.refused[ReasonOf(message, q_.file)];
    if (refusal.example.empty()) refusal.example = message.substr(0, message.find('\n'));
    refusal.count += count, space_.combinations += count;
    return true;
  }

  const Question& q_;
  const Parallel& p_;
  const spec::Train& train_;
  const Slice slice_;
  const Visit& visit_;
  ModelShape shape_;
  bool sequences_ = false;
  std::map<std::array<int64_t, 5>, int> turns_;
  Space space_;
};

}  // namespace

spec::Spec SpecOf(const Question& question, const Layout& layout) {
  spec::Spec spec = question.given;
  Apply(layout, spec);
  if (question.early_stop && layout.recompute > 0 && !layout.selective) {
    auto& recompute = *spec.mutable_train()->mutable_activation_checkpointing();
    if (!recompute.has_early_stop()) recompute.set_early_stop(true);
  }
  if (question.keep_weights && WeightsStay(spec)) {
    spec::Fp8& fp8 = *spec.mutable_train()->mutable_precision()->mutable_fp8();
    if (!fp8.has_keep_weights()) fp8.set_keep_weights(true);
  }
  if (layout.tp == 1) spec.mutable_parallel()->clear_tp_backward_overlap();  // of messages that there are none of
  FillDefaults(spec, question.file);
  return spec;
}

Space Enumerate(const Question& question, const Slice& slice, const Visit& visit) {
  return Enumeration(question, slice, visit).Run();
}

void Add(const Space& other, Space& space) {
  space.legal += other.legal, space.combinations += other.combinations;
  for (const auto& [reason, refusal] : other.refused) {
    Refusal& all = space.refused[reason];
    if (all.example.empty()) all.example = refusal.example;
    all.count += refusal.count;
  }
}

absl::Status CheckAny(const Question& question, const Space& space) {
  if (space.legal > 0) return absl::OkStatus();
  if (space.refused.empty()) {
    return InvalidArgument(question.file, ": parallel: no product of the given tp, pp, cp and dp is ", question.ranks,
                           " ranks; give fewer of them, or other nodes");
  }
  const auto most = std::max_element(space.refused.begin(), space.refused.end(),
                                     [](const auto& a, const auto& b) { return a.second.count < b.second.count; });
  return InvalidArgument(most->second.example, "\n", question.file, ": none of ",
                         Counted(space.combinations, "combination"), " is legal; the first line is the reason of ",
                         CountText(most->second.count));
}

}  // namespace twofold::plan
