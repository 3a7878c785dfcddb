#include "experiments/program/plan/table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/plan/fewer_micro_batches.h"

namespace twofold::plan {
namespace {

constexpr double kSecondsPerHour = 3600, kBillion = 1e9;

// Device hours for a billion tokens.
double HoursOf(const Simulated& s, const Shown& shown) {
  if (s.tokens_per_second <= 0) return 0;
  return kBillion / s.tokens_per_second / kSecondsPerHour * static_cast<double>(shown.ranks);
}

// Whether the interval tells a layout from the best one.
bool IsToldApart(const Simulated& s, const Simulated& best) { return s.low > best.high; }

constexpr char kNearly[] = "≈";

std::string StepText(const Simulated& s) {
  return StrCat(s.Off() > 0 ? StrCat(kNearly, " ") : "", SecondsText(s.seconds));
}

std::string MemoryText(const Simulated& s, const Shown& shown) {
  const auto bytes = static_cast<double>(s.bytes);
  if (shown.device.value() == 0) return BytesText(bytes);
  return StrCat(BytesText(bytes), " (", ShareText(1 - bytes / static_cast<double>(shown.device.value())), " free)");
}

std::string Rows(const Plan& plan, const Shown& shown) {
  std::vector<std::vector<std::string>> rows(1);
  rows[0] = {"layout", "step time", "low",    "high",          "tokens/s",
             "MFU",    "memory",    "bubble", "exposed comm.", "GPU-h/1e9 tokens"};
  if (shown.price > 0) rows[0].emplace_back("price/1e9 tokens");
  for (size_t i = 0; i < plan.ranked.size() && i < static_cast<size_t>(shown.rows); ++i) {
    const Simulated& s = plan.ranked[i];
    rows.push_back({StrCat(i == 0                           ? ""
                           : IsToldApart(s, plan.ranked[0]) ? ""
                                                            : "~ ",
                           Describe(s.layout)),
                    StepText(s), SecondsText(s.low), SecondsText(s.high), RateText(s.tokens_per_second),
                    s.mfu > 0 ? ShareText(s.mfu) : "-", MemoryText(s, shown), ShareText(s.bubble),
                    SecondsText(s.exposed), absl::StrFormat("%.3g", HoursOf(s, shown))});
    if (shown.price > 0) rows.back().push_back(absl::StrFormat("%.4g", HoursOf(s, shown) * shown.price));
  }
  return TableText(rows);
}

// What the marks of the table say.
std::string MarksText(const Plan& plan, const Shown& shown) {
  std::string text;
  if (plan.ranked.size() > 1) text = "~: the interval does not tell this layout from the first.\n";
  const auto rows = std::min(plan.ranked.size(), static_cast<size_t>(shown.rows));
  bool extended = false, folded = false, for_gap = false;
  double off = 0;
  for (size_t i = 0; i < rows; ++i) {
    const Simulated& s = plan.ranked[i];
    extended = extended || s.extended, folded = folded || s.folding_adds > 0;
    for_gap = for_gap || s.for_gap, off = std::max(off, s.Off());
  }
  if (off > 0) {
    StrAppend(&text, kNearly, ": ", extended ? "extended from steps of fewer micro-batches" : "",
              extended && folded ? ", or " : "",
              folded ? "simulated with one rank for several that are not quite alike" : "", ", off by about ",
              absl::StrFormat("%.2g", 100 * off), " % at most (",
              for_gap ? "--gap=0 and fabric.simulated.folding: OFF simulate all of it"
                      : "fabric.simulated.folding: OFF simulates every rank",
              ").\n");
  }
  return text;
}

// What the first saves against the second.
std::string WhyFirst(const Plan& plan) {
  if (plan.ranked.size() < 2) return "";
  const Simulated &a = plan.ranked[0], &b = plan.ranked[1];
  const double idle = b.bubble * b.seconds - a.bubble * a.seconds, waits = b.exposed - a.exposed;
  const auto part = [](double seconds, const char* what) {
    return StrCat(SecondsText(std::abs(seconds)), seconds >= 0 ? " less " : " more ", what);
  };
  const double off = a.Off() * a.seconds + b.Off() * b.seconds;
  return StrCat("The first against the second (", Difference(a.layout, b.layout),
                "): ", off > 0 ? StrCat(kNearly, " ") : "", part(b.seconds - a.seconds, "a step"),
                off > 0 ? StrCat(" (to ", SecondsText(off), ")") : "",
                a.seconds > b.seconds ? ", too little to tell them apart: the plainer one comes first" : "", "; ",
                part(idle, "in bubbles"), ", ", part(waits, "in exposed communication"), ".\n");
}

// Of no plan that fits: the one with the fewest bytes.
std::string ClosestText(const Plan& plan, const Shown& shown) {
  if (!plan.closest) return "";
  const Screened& s = *plan.closest;
  return StrCat("The closest is ", Describe(s.layout), ": it holds at least ", CountText(s.bytes), " bytes, ",
                CountText(s.bytes - shown.device.value()), " more than a device has; most are ", s.what, ".\n");
}

std::string NearlyText(const Plan& plan, const Shown& shown) {
  std::string text;
  for (const Screened& s : plan.nearly) {
    if (!plan.ranked.empty() && s.seconds > plan.ranked[0].seconds) continue;
    StrAppend(&text, "Nearly fits: ", Describe(s.layout), " would take ", SecondsText(s.seconds),
              " or more, but holds at least ", CountText(s.bytes), " bytes, ",
              CountText(s.bytes - shown.device.value()), " too many; most are ", s.what, ".\n");
  }
  for (const Simulated& s : plan.failed)
    StrAppend(&text, "Its simulation failed: ", Describe(s.layout), ": ", s.message, "\n");
  for (const Simulated& s : plan.too_large) {
    constexpr size_t kLongest = 400;
    StrAppend(&text, "Does not fit: ", Describe(s.layout), ": ", s.message.substr(0, kLongest), "\n");
    if (&s - plan.too_large.data() == 2) break;
  }
  return text;
}

std::string EndText(const Plan& plan, const Shown& shown) {
  const SearchOptions& o = shown.options;
  if (o.exhaustive) return "All legal layouts were simulated.\n";
  const double best = FastestOf(plan);
  if (plan.proven && o.gap == 0) return StrCat("Proven: no layout of this space is faster (--gap=0).\n");
  const std::string most =
      StrCat("no layout can take less than ", SecondsText(plan.least), ", ", ShareText(1 - plan.least / best),
             " below ", best < plan.ranked[0].seconds ? "the fastest" : "the first");
  if (plan.open == 0 && !plan.failed.empty())
    return StrCat("Not proven: apart from those whose simulation failed, ", most, ".\n");
  if (plan.proven) return StrCat("Proven: ", most, " (--gap=", absl::StrFormat("%g", 100 * o.gap), "%).\n");
  return StrCat("The budget ended before the proof: ", most, "; ", CountText(plan.open), " layouts are left open.\n");
}

std::string WhatIfText(const Plan& plan, const Shown& shown) {
  std::string text;
  for (const WhatIf& other : shown.what_if) {
    StrAppend(&text, text.empty() ? "What if there were\n  " : "  ", other.name, ": ");
    if (!other.plan.ok()) {
      StrAppend(&text, "cannot be said: ", std::string(other.plan.status().message()), "\n");
    } else if (other.plan->ranked.empty()) {
      StrAppend(&text, "no layout was found: ", ProofOf(*other.plan, other.options), "\n");
    } else {
      const Simulated& first = other.plan->ranked[0];
      const bool same = first.layout == plan.ranked[0].layout;
      StrAppend(&text, same ? "the same layout" : Describe(first.layout), ", ", StepText(first));
      if (!same) StrAppend(&text, " (", Difference(first.layout, plan.ranked[0].layout), ")");
      StrAppend(&text, other.plan->proven ? "\n" : "; not proven: the budget ended\n");
    }
  }
  return text;
}

}  // namespace

// The reason and, where it has numbers, those of one layout.
std::string ReasonText(const std::string& reason, const Refusal& refusal) {
  if (reason.find('#') == std::string::npos) return reason;
  const size_t field = refusal.example.find(reason.substr(0, reason.find(':')));  // after the file's name
  return StrCat("such as ", refusal.example.substr(field, refusal.example.find("; use") - field));
}

std::string RefusalsText(const Space& space) {
  std::vector<std::pair<int64_t, std::string>> all;
  for (const auto& [reason, refusal] : space.refused) all.emplace_back(-refusal.count, ReasonText(reason, refusal));
  std::sort(all.begin(), all.end());
  std::string text;
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < all.size() && i < kShown; ++i)
    StrAppend(&text, "  ", RightAligned(CountText(-all[i].first), 9), "  ", all[i].second, "\n");
  if (all.size() > kShown) StrAppend(&text, "  and ", all.size() - kShown, " more reasons\n");
  const int64_t refused = space.combinations - space.legal;
  return StrCat(Counted(space.combinations, "combination"), ", ", CountText(refused), " not legal",
                refused > 0 ? ":\n" : "\n", text);
}

std::string PlanText(const Plan& plan, const Shown& shown) {
  std::string text = RefusalsText(plan.space);
  if (plan.ranked.empty() && plan.open > 0) {
    StrAppend(&text, "The budget ended before a layout that fits was found: ", ProofOf(plan, shown.options),
              "; no layout can take less than ", SecondsText(plan.least),
              ".\nGive it more time, or fix more fields of the layout (--set=FIELD=VALUE).\n");
    return text;
  }
  if (plan.ranked.empty()) {
    StrAppend(&text, "No layout fits: ", ProofOf(plan, shown.options), ".\n", ClosestText(plan, shown),
              NearlyText(plan, shown));
    return text;
  }
  StrAppend(&text, "\n", Rows(plan, shown), "\n");
  StrAppend(&text, MarksText(plan, shown), WhyFirst(plan), NearlyText(plan, shown),
            "Proof: ", ProofOf(plan, shown.options), ".\n", EndText(plan, shown), WhatIfText(plan, shown));
  return text;
}

std::string PlanCostText(const Plan& plan) {
  const Plan::Costs& c = plan.costs;
  const auto each = [](double seconds, int64_t count) { return SecondsText(seconds / static_cast<double>(count)); };
  std::string text;
  if (plan.space.combinations > 0)
    StrAppend(&text, each(c.screening, plan.space.combinations), " for each of ",
              Counted(plan.space.combinations, "combination"));
  if (plan.bounded > 0)
    StrAppend(&text, ", ", each(c.bounds, plan.bounded), " for each of ", Counted(plan.bounded, "better bound"));
  if (c.simulated > 0)
    StrAppend(&text, ", ", each(c.simulations, c.simulated), " for each of ", Counted(c.simulated, "simulation"));
  return StrCat("of a core: ", text);
}

nlohmann::ordered_json PlanJson(const Plan& plan, const Shown& shown) {
  using Json = nlohmann::ordered_json;
  Json json{{"legal", plan.space.legal},
            {"combinations", plan.space.combinations},
            {"do_not_fit", plan.screened_out},
            {"slower", plan.slower},
            {"open", plan.open},
            {"simulated", SimulationsOf(plan)},
            {"better_bounds", plan.bounded},
            {"gap", shown.options.gap},
            {"proven", plan.proven},
            {"least_seconds", plan.least},
            {"proof", ProofOf(plan, shown.options)},
            {"core_seconds",
             {{"screening", plan.costs.screening},
              {"better_bounds", plan.costs.bounds},
              {"simulations", plan.costs.simulations},
              {"simulations_here", plan.costs.simulated}}}};
  json["refused"] = Json::array();
  for (const auto& [reason, refusal] : plan.space.refused)
    json["refused"].push_back({{"reason", reason}, {"count", refusal.count}, {"example", refusal.example}});
  json["layouts"] = Json::array();
  for (size_t i = 0; i < plan.ranked.size() && i < static_cast<size_t>(shown.rows); ++i) {
    const Simulated& s = plan.ranked[i];
    Json one = Json::parse(ToJsonLine(s));
    one.erase("core_seconds");  // differs from run to run
    one["text"] = Describe(s.layout);
    one["told_apart"] = IsToldApart(s, plan.ranked[0]);
    one["device_bytes"] = shown.device.value();
    one["device_hours_per_billion_tokens"] = HoursOf(s, shown);
    if (shown.price > 0) one["price_per_billion_tokens"] = HoursOf(s, shown) * shown.price;
    json["layouts"].push_back(std::move(one));
  }
  if (plan.ranked.empty() && plan.closest) {
    json["closest"] = {{"text", Describe(plan.closest->layout)},
                       {"least_bytes", plan.closest->bytes},
                       {"device_bytes", shown.device.value()},
                       {"most_are", plan.closest->what}};
  }
  json["too_large"] = Json::array();
  for (const Simulated& s : plan.too_large)
    json["too_large"].push_back({{"text", Describe(s.layout)}, {"message", s.message}});
  json["failed"] = Json::array();
  for (const Simulated& s : plan.failed)
    json["failed"].push_back({{"text", Describe(s.layout)}, {"message", s.message}});
  for (const WhatIf& other : shown.what_if) {
    Json one{{"name", other.name}};
    if (!other.plan.ok()) {
      one["error"] = std::string(other.plan.status().message());
    } else {
      one["proven"] = other.plan->proven;
      one["proof"] = ProofOf(*other.plan, other.options);
      if (!other.plan->ranked.empty()) {
        one["text"] = Describe(other.plan->ranked[0].layout);
        one["seconds"] = other.plan->ranked[0].seconds;
        one["extended"] = other.plan->ranked[0].extended, one["folding_adds"] = other.plan->ranked[0].folding_adds;
      }
    }
    json["what_if"].push_back(std::move(one));
  }
  return json;
}

}  // namespace twofold::plan
