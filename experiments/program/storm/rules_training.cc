// What a run that goes on must have trained on, and with what result.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_format.h"
#include "core/base/strings.h"
#include "experiments/program/storm/rules.h"
#include "strategies/from_spec.h"

namespace twofold::storm {
namespace {

// Sums have other numbers of terms with other numbers of replicas, and rounding grows from step to step.
constexpr double kLossTolerance = 2e-3;
constexpr double kSumTolerance = 1e-5;  // of f32 sums

// The steps of a generation that count: those before the next generation's first one.
int64_t EndOf(const Course& course, int generation) {
  const auto next = course.first_step.upper_bound(generation);
  if (next != course.first_step.end()) return next->second;
  const report::RankRecord* lead = course.evidence.lead();
  return lead == nullptr ? 0 : lead->first_step() + lead->steps_size();
}

// Steps that a later generation takes back do not count.
int64_t CountingEndOf(const Course& course, int generation) {
  int64_t end = EndOf(course, generation);
  for (auto later = course.first_step.upper_bound(generation); later != course.first_step.end(); ++later)
    end = std::min(end, later->second);
  return end;
}

using Batch = std::map<int64_t, int64_t>;  // by sample: how often it is read

// How often ranks of a replica read one sample.
int64_t ReadsPerSample(const Batch& batch) {
  int64_t reads = 0;
  for (const auto& [sample, count] : batch) reads = std::max(reads, count);
  return reads;
}

void JudgeGlobalBatches(const Course& course, Findings& findings) {
  for (const auto& [generation, first] : course.first_step) {
    const std::map<int64_t, Batch> batches = BatchesOf(course.evidence, generation);
    for (int64_t step = first; step < CountingEndOf(course, generation); ++step) {
      const auto batch = batches.find(step);
      const Batch& expected = course.reference.batches[static_cast<size_t>(step)];
      if (batch != batches.end() && batch->second == expected) continue;
      size_t wrong = 0;
      for (const auto& [sample, count] : expected)
        wrong += batch == batches.end() || !batch->second.contains(sample) || batch->second.at(sample) != count ? 1 : 0;
      findings.Add("samples", StrCat("generation ", generation, ", step ", step, ": ", wrong, " of ", expected.size(),
                                     " samples of an undisturbed run were not read as often as there, and ",
                                     batch == batches.end() ? 0 : batch->second.size(), " different ones were read"));
      return;
    }
  }
}

void JudgeLocalBatches(const Course& course, int64_t samples, Findings& findings) {
  Batch all;
  const int64_t reads = ReadsPerSample(course.reference.batches[0]);
  for (const auto& [generation, first] : course.first_step) {
    const std::map<int64_t, Batch> batches = BatchesOf(course.evidence, generation);
    for (int64_t step = first; step < CountingEndOf(course, generation); ++step) {
      const auto batch = batches.find(step);
      if (batch == batches.end())
        return findings.Add("samples", StrCat("generation ", generation, ", step ", step, " read no samples"));
      for (const auto& [sample, count] : batch->second) all[sample] += count;
    }
  }
  int64_t most = 0, least = static_cast<int64_t>(all.size()) < samples ? 0 : reads * (int64_t{1} << 40);
  for (const auto& [sample, count] : all) most = std::max(most, count), least = std::min(least, count);
  if (most - least > reads) {
    findings.Add("samples",
                 StrCat("epochs have gaps or repeat samples: one sample was read ", most / std::max<int64_t>(1, reads),
                        " times, another ", least / std::max<int64_t>(1, reads), " times"));
  }
}

void JudgeSamples(const Course& course, Findings& findings) {
  if (course.first_step.empty() && course.elastic()) return;  // nobody has left a record
  if (!course.elastic()) {
    const std::map<int64_t, Batch> batches = BatchesOf(course.evidence, 0);
    const report::RankRecord* lead = course.evidence.lead();
    const int64_t done = lead == nullptr ? 0 : lead->steps_size();
    for (int64_t step = 0; step < done; ++step) {
      const auto batch = batches.find(step);
      if (batch == batches.end() || batch->second != course.reference.batches[static_cast<size_t>(step)])
        return findings.Add("samples", StrCat("step ", step, " was not trained on the samples of an undisturbed run"));
    }
    return;
  }
  if (course.keeps_batch()) return JudgeGlobalBatches(course, findings);
  JudgeLocalBatches(course, course.samples, findings);
}

bool HasDropout(const spec::Model& m) {
  return m.gpt().dropout() > 0 || m.gpt().attention_dropout() > 0 || m.mlp().dropout() > 0;
}
// Their curves depend on the number of replicas.
bool HasOwnCurve(const spec::Spec& spec) {
  return HasDropout(spec.model()) || spec.model().has_cnn() || spec.model().has_moe() ||
         spec.parallel().has_compression();
}

// The step before which as many replicas trained as in an undisturbed run, in all that counts. Then sums are the same,
// and so are dropout's masks, which follow from the seed, the step and a replica's place. What a lost member's
// compression left out is lost.
int64_t SameReplicasUntil(const Course& course) {
  for (auto g = course.first_step.begin(); g != course.first_step.end(); ++g) {
    const int generation = g->first;
    const bool same = generation == 0 || (course.dp.at(generation) == course.spec.parallel().dp() &&
                                          !course.spec.parallel().has_compression());
    if (!same && g->second < CountingEndOf(course, generation)) return g->second;
  }
  return course.spec.train().steps();
}

void JudgeLosses(const Course& course, Findings& findings) {
  const report::RankRecord* lead = course.evidence.lead();
  if (lead == nullptr) return;
  const int64_t same_replicas = SameReplicasUntil(course);
  for (int i = 0; i < lead->steps_size(); ++i) {
    const int64_t step = lead->first_step() + i;
    if (step >= static_cast<int64_t>(course.reference.losses.size())) return;
    const double loss = lead->steps(i).loss(), expected = course.reference.losses[static_cast<size_t>(step)];
    const bool exact = step < same_replicas;
    if (std::isnan(loss) && std::isnan(expected)) continue;  // the host did not read it
    if (!exact && (!course.keeps_batch() || HasOwnCurve(course.spec))) return;
    const double off = std::abs(loss - expected) / std::max(std::abs(expected), 1e-3);
    if (exact ? loss == expected : off <= kLossTolerance) continue;
    findings.Add("losses", absl::StrFormat("step %d: loss %.9g, but %.9g in an undisturbed run%s", step, loss, expected,
                                           exact ? ", though as many replicas trained" : ""));
    return;
  }
}

// A server adds a gradient's loss where it adds the gradient, and tells the mean of an update. So all that it tells is
// all that workers tell.
void JudgeSumOfLosses(const Course& course, Findings& findings) {
  double told = 0, computed = 0;
  const auto dp = static_cast<double>(course.spec.parallel().dp());
  for (const auto& [rank, record] : course.evidence.records) {
    for (const report::Step& step : record.steps()) {
      if (std::isnan(step.loss())) continue;
      if (rank == 0) told += step.loss();
      if (rank >= course.spec.train().async_sgd().servers()) computed += step.loss() / dp;
    }
  }
  if (std::abs(told - computed) > kSumTolerance * std::abs(computed)) {
    findings.Add("losses", absl::StrFormat("the losses of all updates add up to %.9g, but those of the gradients that "
                                           "workers computed to %.9g",
                                           told, computed));
  }
}

// Who is fast decides whose gradients are used, so neither samples nor losses are those of an undisturbed run, unless
// the bound is 0. But every gradient that was begun is used once, and none is too old.
void JudgeAsync(const Course& course, Findings& findings) {
  const auto server = course.evidence.records.find(0);
  const spec::Train& train = course.spec.train();
  if (server == course.evidence.records.end() || train.async_sgd().mode() == spec::AsyncSgd::GOSSIP) return;
  int64_t used = 0, reads = 0;
  for (const int64_t count : server->second.gradients_by_staleness()) used += count;
  for (const Seen& seen : course.evidence.seen) reads += seen.what == Seen::kSample ? 1 : 0;
  const int64_t dp = course.spec.parallel().dp(), updates = server->second.steps_size(),
                bound = train.async_sgd().staleness();
  if (bound >= 0 && server->second.gradients_by_staleness_size() > bound + 1) {
    findings.Add("samples", StrCat("a gradient was used ", server->second.gradients_by_staleness_size() - 1,
                                   " updates after its parameters; the bound is ", bound));
  }
  if (course.evidence.status.ok() && (used != dp * updates || updates != train.steps()))
    findings.Add("samples",
                 StrCat(updates, " of ", train.steps(), " updates used ", used, " gradients; each takes ", dp));
  if (course.evidence.status.ok() && course.evidence.saw_all && reads != train.steps() * train.global_batch()) {
    findings.Add("samples",
                 StrCat(reads, " samples were read for gradients of ", train.steps() * train.global_batch()));
  }
  if (course.evidence.status.ok()) JudgeSumOfLosses(course, findings);
  if (bound == 0) JudgeLosses(course, findings);
}

void JudgeMemory(const Course& course, Findings& findings) {
  const bool same_members = course.fatal.empty() && course.last_generation() == 0;
  for (const auto& [member, record] : course.evidence.records) {
    const int64_t peak = record.memory().peak_bytes();
    const auto own = course.reference.peak_bytes.find(member);
    if (same_members && own != course.reference.peak_bytes.end() && record.steps_size() > 0) {
      if (course.evidence.status.ok() && peak != own->second)
        findings.Add("memory",
                     StrCat("rank ", member, " had ", peak, " bytes at its peak, and was predicted ", own->second));
      continue;
    }
    if (peak > 2 * course.reference.most_bytes) {
      findings.Add("memory",
                   StrCat("member ", member, " had ", peak,
                          " bytes at its peak; the most of any number of replicas is ", course.reference.most_bytes));
    }
  }
}

}  // namespace

void JudgeTraining(const Course& course, Findings& findings) {
  JudgeMemory(course, findings);
  if (course.spec.train().has_async_sgd()) return JudgeAsync(course, findings);
  if (course.evidence.saw_all) JudgeSamples(course, findings);
  JudgeLosses(course, findings);
}

}  // namespace twofold::storm
