#include "experiments/program/continuation.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace {

// "train.optimizer.adamw.lr=0.0002": the learning rate times `factor`. Every optimizer has the field.
std::string ScaledRate(const spec::Optimizer& optimizer, double factor) {
  const auto* kind =
      optimizer.GetReflection()->GetOneofFieldDescriptor(optimizer, optimizer.GetDescriptor()->FindOneofByName("kind"));
  const google::protobuf::Message& chosen = optimizer.GetReflection()->GetMessage(optimizer, kind);
  const double rate = chosen.GetReflection()->GetDouble(chosen, chosen.GetDescriptor()->FindFieldByName("lr"));
  return absl::StrFormat("train.optimizer.%s.lr=%.17g", kind->name(), rate * factor);
}

std::vector<std::string> SetsFor(const spec::Spec& spec, int64_t dp) {
  const int64_t dp_before = spec.parallel().dp(), batch_before = spec.train().global_batch();
  const bool keeps_local = spec.train().elastic().batch() == spec::Elastic::KEEP_LOCAL;
  std::vector<std::string> sets = {
      StrCat("parallel.dp=", dp),
      StrCat("train.global_batch=", keeps_local ? batch_before / dp_before * dp : batch_before)};
  if (keeps_local && dp != dp_before) {
    sets.push_back(ScaledRate(spec.train().optimizer(), static_cast<double>(dp) / static_cast<double>(dp_before)));
  }
  return sets;
}

}  // namespace

absl::StatusOr<Continuation> ContinueWith(const RunWords& run, std::string_view fabric, int ranks, int least_ranks) {
  const spec::Parallel& before = run.spec.parallel();
  const int64_t of_replica = before.pp() * before.cp() * before.tp();
  const int64_t most = std::min(ranks / of_replica, before.dp());
  const int64_t least =
      std::max({int64_t{1}, run.spec.train().elastic().min_dp(), (least_ranks + of_replica - 1) / of_replica});
  const std::string left = StrCat(ranks, ranks == 1 ? " rank is" : " ranks are", " left");
  if (most < least) {
    return FailedPrecondition(left, ", but ", least * of_replica, " are needed: pp * cp * tp = ", of_replica,
                              " times a dp of at least ", least, " (--min-ranks=", least_ranks,
                              ", train.elastic.min_dp = ", run.spec.train().elastic().min_dp(), ")");
  }
  std::string tried;
  for (int64_t dp = most; dp >= least; --dp) {
    std::vector<std::string> sets = SetsFor(run.spec, dp), all = run.sets;
    all.insert(all.end(), sets.begin(), sets.end());
    const absl::Status status = LoadSpec(run.file, fabric, all).status();
    if (status.ok()) return Continuation{static_cast<int>(dp * of_replica), dp, std::move(sets)};
    const std::vector<std::string> problems = absl::StrSplit(std::string(status.message()), '\n');
    StrAppend(&tried, "\n  parallel.dp = ", dp, ": ", problems[0]);
  }
  return FailedPrecondition(left, ", but the spec is valid with no parallel.dp from ", most, " to ", least, ":", tried);
}

}  // namespace twofold
