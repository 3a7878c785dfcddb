#include "experiments/program/storm/story.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/storm/schedule.h"

namespace twofold::storm {
namespace {

// How long a fault lasts that strikes at `seconds`.
void AddStretches(const spec::Fault& fault, double seconds, double end, Struck& struck) {
  const auto add = [&](double from, double for_s) {
    Stretch& stretch = *struck.add_stretches();
    stretch.set_from(from), stretch.set_to(std::min(from + for_s, std::max(from, end)));
  };
  if (fault.has_hangs_s()) add(seconds, fault.hangs_s());
  if (fault.has_slow()) add(seconds, fault.slow().has_for_s() ? fault.slow().for_s() : end - seconds);
  for (int64_t i = 0; fault.has_link_down() && i < fault.link_down().times(); ++i) {
    const double from = seconds + static_cast<double>(i) * fault.link_down().every_s();
    if (from < end) add(from, fault.link_down().for_s());
  }
}

void AddMoments(const Evidence& evidence, Verdict& verdict) {
  for (const Seen& seen : evidence.seen) {
    if (seen.what == Seen::kPiece || seen.what == Seen::kSample) continue;
    Moment& moment = *verdict.add_moments();
    moment.set_what(seen.what == Seen::kDone    ? Moment::DONE
                    : seen.what == Seen::kSaved ? Moment::SAVED
                    : seen.value != 0           ? Moment::RETURNED
                                                : Moment::THREW);
    moment.set_member(seen.member), moment.set_generation(seen.generation);
    moment.set_steps(seen.steps), moment.set_seconds(seen.time);
  }
  std::stable_sort(verdict.mutable_moments()->begin(), verdict.mutable_moments()->end(),
                   [](const Moment& a, const Moment& b) { return a.seconds() < b.seconds(); });
}

double EndOf(const Verdict& verdict) {
  double end = 0;
  for (const Moment& m : verdict.moments()) end = std::max(end, m.seconds());
  for (const Struck& s : verdict.struck())
    if (std::isfinite(s.seconds())) end = std::max(end, s.seconds());
  return end;
}

}  // namespace

void AddStory(const spec::Spec& spec, const Schedule& schedule, const Evidence& evidence, Verdict& verdict) {
  AddMoments(evidence, verdict);
  std::vector<int> places;  // by fault: in the schedule
  for (int i = 0; i < schedule.disasters_size(); ++i)
    if (schedule.disasters(i).has_fault()) places.push_back(i);
  const int own = spec.fabric().simulated().faults_size();  // they come first
  for (const RunResult::Struck& s : evidence.struck) {
    const int index = s.fault - own;
    const bool drawn = index >= 0 && index < static_cast<int>(places.size());
    Struck& struck = *verdict.add_struck();
    struck.set_disaster(drawn ? places[static_cast<size_t>(index)] : -1), struck.set_member(s.rank);
    if (s.seconds.has_value()) struck.set_seconds(*s.seconds);
    struck.set_text(StrCat(s.text, s.deleted ? "; the file was deleted later" : ""));
  }
  const double end = EndOf(verdict);
  for (Struck& struck : *verdict.mutable_struck()) {
    if (struck.disaster() >= 0 && std::isfinite(struck.seconds()))
      AddStretches(schedule.disasters(static_cast<int>(struck.disaster())).fault(), struck.seconds(), end, struck);
  }
  std::stable_sort(verdict.mutable_struck()->begin(), verdict.mutable_struck()->end(),
                   [](const Struck& a, const Struck& b) {
                     const auto time = [](const Struck& s) {
                       return std::isfinite(s.seconds()) ? s.seconds() : std::numeric_limits<double>::infinity();
                     };
                     return time(a) < time(b);
                   });
}

nlohmann::ordered_json StoryJson(const Schedule& schedule, const Verdict& verdict) {
  using Json = nlohmann::ordered_json;
  Json disasters = Json::array(), struck = Json::array(), moments = Json::array();
  for (const Disaster& d : schedule.disasters()) disasters.push_back(Describe(d));
  for (const Struck& s : verdict.struck()) {
    Json stretches = Json::array();
    for (const Stretch& stretch : s.stretches()) stretches.push_back({stretch.from(), stretch.to()});
    struck.push_back({{"disaster", s.disaster()},
                      {"rank", s.member()},
                      {"text", s.text()},
                      {"seconds", std::isfinite(s.seconds()) ? Json(s.seconds()) : Json()},
                      {"stretches", std::move(stretches)}});
  }
  for (const Moment& m : verdict.moments()) {
    constexpr const char* kWhat[] = {"done", "saved", "returned", "threw"};
    moments.push_back({kWhat[m.what()], m.member(), m.generation(), m.steps(), m.seconds()});
  }
  return {{"kind", "storm"},       {"seed", SeedText(schedule.seed())},
          {"end", EndOf(verdict)}, {"disasters", disasters},
          {"struck", struck},      {"moments", moments}};
}

}  // namespace twofold::storm
