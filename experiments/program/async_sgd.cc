#include "experiments/program/async_sgd.h"

#include <algorithm>
#include <vector>

#include "experiments/program/assemble.h"

namespace twofold {
namespace {

// Server 0 counts all gradients; without servers, each worker its own.
void AddStaleness(const std::vector<const report::RankRecord*>& records, report::AsyncSgd& out) {
  auto& counts = *out.mutable_gradients_by_staleness();
  double sum = 0, count = 0;
  for (const report::RankRecord* record : records) {
    for (int s = 0; s < record->gradients_by_staleness_size(); ++s) {
      if (s >= counts.size()) counts.Add(0);
      counts.Set(s, counts.Get(s) + record->gradients_by_staleness(s));
      const auto gradients = static_cast<double>(record->gradients_by_staleness(s));
      sum += gradients * s, count += gradients;
    }
  }
  out.set_mean_staleness(count > 0 ? sum / count : 0);
  out.set_max_staleness(std::max(0, counts.size() - 1));
}

// Without servers no rank knows the others' losses: rank 0's steps get the means over the workers that have done them.
void AverageLosses(const std::vector<const report::RankRecord*>& workers, report::Report& out) {
  for (int i = 0; i < out.steps_size(); ++i) {
    double sum = 0;
    int count = 0;
    for (const report::RankRecord* worker : workers) {
      if (i < worker->steps_size()) sum += worker->steps(i).loss(), ++count;
    }
    if (count > 0) out.mutable_steps(i)->set_loss(sum / count);
  }
}

void AddWorker(const report::RankRecord& record, int64_t warmup, report::AsyncSgd& out) {
  report::AsyncWorker& worker = *out.add_workers();
  worker.set_rank(record.rank());
  worker.set_gradients(record.steps_size());
  std::vector<double> seconds, waited;
  double all = 0, all_waited = 0;
  for (int i = 0; i < record.steps_size(); ++i) {
    const report::Step& step = record.steps(i);
    all += step.seconds(), all_waited += step.exposed_communication_seconds();
    if (i < warmup && record.steps_size() > warmup) continue;
    seconds.push_back(step.seconds());
    waited.push_back(step.exposed_communication_seconds());
  }
  worker.set_median_gradient_seconds(Quantile(seconds, 0.5));
  worker.set_median_waiting_seconds(Quantile(waited, 0.5));
  worker.set_waiting_p90_seconds(Quantile(waited, 0.9));
  worker.set_max_waiting_seconds(Quantile(waited, 1));
  worker.set_waiting_share(all > 0 ? all_waited / all : 0);
}

}  // namespace

void AddAsyncSgd(const spec::Spec& spec, const RankRecords& records, report::Report& out) {
  if (!spec.train().has_async_sgd()) return;
  report::AsyncSgd& async = *out.mutable_async_sgd();
  std::vector<const report::RankRecord*> all, workers;
  for (const report::RankRecord& record : records.kept()) {
    all.push_back(&record);
    if (record.rank() >= spec.train().async_sgd().servers()) workers.push_back(&record);
  }
  AddStaleness(all, async);
  if (spec.train().async_sgd().mode() == spec::AsyncSgd::GOSSIP) AverageLosses(workers, out);
  std::sort(workers.begin(), workers.end(), [](const auto* a, const auto* b) { return a->rank() < b->rank(); });
  for (const report::RankRecord* worker : workers) AddWorker(*worker, spec.train().warmup_steps(), async);
}

}  // namespace twofold
