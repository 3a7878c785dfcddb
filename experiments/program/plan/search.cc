#include "experiments/program/plan/search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <queue>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/plan/fewer_micro_batches.h"

namespace twofold::plan {
namespace {

// Bounds and simulations add the same times in other orders.
constexpr double kRounding = 1e-9;
// Of the budget: when so much is over and nothing was simulated, a layout is, without better bounds first.
constexpr double kHasty = 0.5;

class Searching {
 public:
  Searching(const Question& question, Bytes device, Pool& pool, Journal* journal, const SearchOptions& options)
      : question_(question), device_(device), pool_(pool), journal_(journal), options_(options), begin_(Now()) {
    if (journal_ == nullptr) return;
    for (const Simulated& s : journal_->read()) {
      if (Extends() || !s.for_gap) known_[ToLine(s.layout)] = s;
    }
  }

  absl::StatusOr<Plan> Run() {
    if (absl::Status s = Screen(); !s.ok()) return s;
    if (absl::Status s = CheckAny(question_, plan_.space); !s.ok()) return s;
    LeaveOutTooLarge();
    for (size_t i = 0; i < candidates_.size(); ++i) Push(i);
    if (absl::Status s = Climb(); !s.ok()) return s;
    Conclude();
    return std::move(plan_);
  }

 private:
  struct Candidate {
    Screened screened;
    double bound = 0;
    enum { kQuick, kTight, kDone } level = kQuick;  // kTight: simulated next
    size_t judged;                                  // its place in the plan's list
  };
  enum Kind : int64_t { kScreen, kBound, kSimulate };

  double Now() const {
    if (options_.clock) return options_.clock();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  // Only with a gap that is much larger than the error of extending: for smaller ones, steps are simulated whole.
  bool Extends() const { return options_.gap >= 5 * kExtensionError && !options_.exhaustive; }

  // ---- Screening: a part of the space for each turn of a process ----
  absl::Status Screen() {
    constexpr int kPartsOfEach = 16;
    const int parts = pool_.size() * kPartsOfEach;
    std::map<int64_t, std::vector<Screened>> found;  // by part, so that the order does not depend on who was first
    for (int next = 0, done = 0; done < parts;) {
      while (next < parts && pool_.HasIdle()) {
        if (absl::Status s = pool_.Give(next, Worker::ScreenTask({.index = next, .of = parts})); !s.ok()) return s;
        ++next;
      }
      absl::StatusOr<std::optional<Pool::Answer>> answer = pool_.Next(1);
      if (!answer.ok()) return answer.status();
      if (!*answer) continue;
      Worker::ScreenAnswer screened = Worker::ScreenAnswerFrom((*answer)->bytes);
      Add(screened.space, plan_.space);
      plan_.costs.screening += screened.core_seconds;
      found[(*answer)->id] = std::move(screened.screened);
      ++done;
      Tell(StrCat("screening: ", CountText(plan_.space.legal), " legal layouts so far"));
    }
    for (auto& [part, screened] : found) {
      for (Screened& s : screened) {
        plan_.judged.push_back({.layout = s.layout, .least_seconds = s.seconds, .least_bytes = s.bytes});
        candidates_.push_back(
            {.screened = s, .bound = options_.exhaustive ? 0 : s.seconds, .judged = plan_.judged.size() - 1});
      }
    }
    return absl::OkStatus();
  }

  void LeaveOutTooLarge() {
    if (device_.value() == 0 || options_.exhaustive) return;
    const auto bytes = [](const Candidate& c) { return c.screened.bytes; };
    std::vector<Candidate> left;
    for (Candidate& c : candidates_) {
      if (bytes(c) <= device_.value()) {
        left.push_back(std::move(c));
        continue;
      }
      ++plan_.screened_out;
      plan_.judged[c.judged].fate = Judged::kDoesNotFit;
      if (!plan_.closest || bytes(c) < plan_.closest->bytes) plan_.closest = c.screened;
      if (static_cast<double>(bytes(c)) <= kNearly * static_cast<double>(device_.value()))
        plan_.nearly.push_back(std::move(c.screened));
    }
    candidates_ = std::move(left);
    // Of those that nearly fit, the ones that would be fastest.
    constexpr size_t kKept = 3;
    std::stable_sort(plan_.nearly.begin(), plan_.nearly.end(),
                     [](const Screened& a, const Screened& b) { return a.seconds < b.seconds; });
    if (plan_.nearly.size() > kKept) plan_.nearly.resize(kKept);
  }

  // ---- The lowest bound comes next ----
  void Push(size_t i) { open_.emplace(candidates_[i].bound, i); }

  // What a layout must be able to beat.
  double ToBeat() const {
    const auto k = static_cast<size_t>(options_.gap > 0 ? 1 : options_.top);
    if (times_.size() < k) return std::numeric_limits<double>::infinity();
    auto at = times_.begin();
    std::advance(at, k - 1);
    return *at * (1 - options_.gap);
  }
  bool IsBeaten(double bound) const { return !options_.exhaustive && bound * (1 - kRounding) >= ToBeat(); }

  absl::Status Climb() {
    while (true) {
      const double spent = options_.budget > 0 ? (Now() - begin_) / options_.budget : 0;
      const bool late = spent > 1;
      while (!late && pool_.HasIdle() && !open_.empty() && !IsBeaten(open_.top().first)) {
        if (spent > kHasty && times_.empty() && !IsSimulating())
          candidates_[open_.top().second].level = Candidate::kTight;
        if (absl::Status s = GiveNext(); !s.ok()) return s;
      }
      const bool ends = late || open_.empty() || IsBeaten(open_.top().first);
      if (under_way_.empty() || late) {
        if (ends) return absl::OkStatus();
        continue;
      }
      absl::StatusOr<std::optional<Pool::Answer>> answer = pool_.Next(0.5);
      if (!answer.ok()) return answer.status();
      if (*answer) {
        if (absl::Status s = Take(**answer); !s.ok()) return s;
      }
      TellState();
    }
  }

  bool IsSimulating() const {
    return std::any_of(under_way_.begin(), under_way_.end(),
                       [this](const Entry& e) { return candidates_[e.second].level == Candidate::kTight; });
  }

  absl::Status GiveNext() {
    const size_t i = open_.top().second;
    open_.pop();
    Candidate& c = candidates_[i];
    const Layout& layout = c.screened.layout;
    const bool simulates = options_.exhaustive || c.level == Candidate::kTight;
    if (const auto at = known_.find(ToLine(layout)); at != known_.end()) {
      c.level = Candidate::kDone;
      plan_.judged[c.judged].fate = Judged::kSimulated;
      Record(at->second);
      return absl::OkStatus();
    }
    under_way_.insert({c.bound, i});
    return pool_.Give(static_cast<int64_t>(i),
                      options_.exhaustive ? Worker::CheckTask(layout)
                      : simulates         ? (Extends() ? Worker::ExtendTask(layout) : Worker::SimulateTask(layout))
                                          : Worker::BoundTask(layout, ToBeat()));
  }

  absl::Status Take(const Pool::Answer& answer) {
    const auto i = static_cast<size_t>(answer.id);
    Candidate& c = candidates_[i];
    under_way_.erase({c.bound, i});
    if (options_.exhaustive || c.level == Candidate::kTight) {
      c.level = Candidate::kDone;
      plan_.judged[c.judged].fate = Judged::kSimulated;
      absl::StatusOr<Simulated> simulated = SimulatedFrom(answer.bytes);
      if (!simulated.ok()) return simulated.status();
      plan_.costs.simulations += simulated->core_seconds, ++plan_.costs.simulated;
      Record(*simulated);
      return journal_ == nullptr ? absl::OkStatus() : journal_->Add(*simulated);
    }
    const Worker::BoundAnswer bound = Worker::BoundAnswerFrom(answer.bytes);
    ++plan_.bounded, plan_.costs.bounds += bound.core_seconds;
    if (!bound.message.empty()) {
      ++plan_.screened_out;
      plan_.judged[c.judged].fate = Judged::kDoesNotFit;
      c.level = Candidate::kDone;
      return absl::OkStatus();
    }
    c.bound = plan_.judged[c.judged].least_seconds = std::max(c.bound, bound.seconds);
    if (bound.tight) c.level = Candidate::kTight;
    Push(i);
    return absl::OkStatus();
  }

  void Record(const Simulated& simulated) {
    if (simulated.failed) return plan_.failed.push_back(simulated);
    if (!simulated.fits) return plan_.too_large.push_back(simulated);
    times_.insert(simulated.seconds * (1 + simulated.Off()));
    plan_.ranked.push_back(simulated);
  }

  // ---- The end ----
  void Conclude() {
    std::map<std::string, size_t> place;
    for (size_t i = 0; i < candidates_.size(); ++i) place[ToLine(candidates_[i].screened.layout)] = i;
    std::sort(plan_.ranked.begin(), plan_.ranked.end(), [&](const Simulated& a, const Simulated& b) {
      return std::pair(a.seconds, place[ToLine(a.layout)]) < std::pair(b.seconds, place[ToLine(b.layout)]);
    });
    if (options_.gap > 0 && !options_.exhaustive) PutPlainestFirst(plan_.ranked);
    plan_.least = std::numeric_limits<double>::infinity();
    for (const Simulated& s : plan_.ranked) plan_.least = std::min(plan_.least, s.seconds * (1 - s.Off()));
    const auto leave = [&](double bound, size_t i) {
      ++(IsBeaten(bound) ? plan_.slower : plan_.open);
      plan_.judged[candidates_[i].judged].fate = IsBeaten(bound) ? Judged::kSlower : Judged::kOpen;
      plan_.least = std::min(plan_.least, bound);
    };
    for (; !open_.empty(); open_.pop()) leave(open_.top().first, open_.top().second);
    for (const auto& [bound, i] : under_way_) leave(bound, i);
    if (plan_.least == std::numeric_limits<double>::infinity()) plan_.least = 0;
    plan_.proven = plan_.open == 0 && plan_.failed.empty();
  }

  void Tell(const std::string& doing) {
    if (options_.progress) options_.progress(doing);
  }
  void TellState() {
    const double least =
        std::min(open_.empty() ? std::numeric_limits<double>::infinity() : open_.top().first,
                 under_way_.empty() ? std::numeric_limits<double>::infinity() : under_way_.begin()->first);
    const std::string best =
        times_.empty() ? "none fits so far" : StrCat("the best so far takes ", SecondsText(*times_.begin()));
    Tell(StrCat(Counted(SimulationsOf(plan_), "simulation"), ", ", CountText(plan_.bounded), " better bounds; ", best,
                "; none takes less than ", SecondsText(least)));
  }

  const Question& question_;
  const Bytes device_;
  Pool& pool_;
  Journal* const journal_;
  const SearchOptions& options_;
  const double begin_;
  Plan plan_;
  std::vector<Candidate> candidates_;
  using Entry = std::pair<double, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
  std::set<Entry> under_way_;
  std::multiset<double> times_;
  std::map<std::string, Simulated> known_;  // from the journal
};

}  // namespace

absl::StatusOr<Plan> Search(const Question& question, Bytes device, Pool& pool, Journal* journal,
                            const SearchOptions& options) {
  return Searching(question, device, pool, journal, options).Run();
}

void PutPlainestFirst(std::vector<Simulated>& ranked) {
  if (ranked.empty()) return;
  const auto extras = [](const Simulated& s) { return std::pair(s.layout.offload, s.layout.recompute > 0); };
  const double reach = ranked[0].seconds * (1 + ranked[0].Off());
  auto plainest = ranked.begin();
  for (auto s = ranked.begin(); s != ranked.end(); ++s)
    if (s->seconds * (1 - s->Off()) < reach && extras(*s) < extras(*plainest)) plainest = s;
  std::rotate(ranked.begin(), plainest, plainest + 1);
}

double FastestOf(const Plan& plan) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Simulated& s : plan.ranked) fastest = std::min(fastest, s.seconds);
  return fastest;
}

int64_t SimulationsOf(const Plan& plan) {
  return static_cast<int64_t>(plan.ranked.size() + plan.too_large.size() + plan.failed.size());
}

std::string ProofOf(const Plan& plan, const SearchOptions& options) {
  const int64_t simulated = SimulationsOf(plan);
  std::string text =
      StrCat("of ", CountText(plan.space.legal), " legal layouts ", CountText(plan.screened_out), " do not fit");
  if (!plan.ranked.empty()) {
    const auto k = std::min(static_cast<size_t>(options.top), plan.ranked.size());
    const double best = options.gap > 0 ? FastestOf(plan) : plan.ranked[k - 1].seconds;
    StrAppend(&text, ", ", CountText(plan.slower), " cannot beat ", SecondsText(best),
              options.gap > 0 ? StrCat(" by more than ", ShareText(options.gap)) : "");
  }
  if (plan.open > 0) StrAppend(&text, ", ", CountText(plan.open), " are left open");
  StrAppend(&text, ", ", Counted(simulated, "layout"), simulated == 1 ? " was" : " were", " simulated");
  const auto extended =
      std::count_if(plan.ranked.begin(), plan.ranked.end(), [](const Simulated& s) { return s.extended; });
  if (extended > 0)
    StrAppend(&text, ", ", CountText(extended), " of them with fewer micro-batches (to ", 100 * kExtensionError, " %)");
  const auto folded =
      std::count_if(plan.ranked.begin(), plan.ranked.end(), [](const Simulated& s) { return s.folding_adds > 0; });
  if (folded > 0) {
    const double most =
        std::max_element(plan.ranked.begin(), plan.ranked.end(), [](const Simulated& a, const Simulated& b) {
          return a.folding_adds < b.folding_adds;
        })->folding_adds;
    StrAppend(&text, ", ", CountText(folded), " of them with one rank for several that are not quite alike (to ",
              absl::StrFormat("%.2g", 100 * most), " %)");
  }
  if (!plan.too_large.empty())
    StrAppend(&text, " (", CountText(static_cast<int64_t>(plan.too_large.size())), " of them ran out of memory)");
  if (!plan.failed.empty())
    StrAppend(&text, ", of which ", CountText(static_cast<int64_t>(plan.failed.size())),
              " failed, so that nothing is known of them");
  return text;
}

}  // namespace twofold::plan
