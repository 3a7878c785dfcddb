#include "strategies/async_sgd/worker.h"

#include <algorithm>
#include <array>

namespace twofold {

AsyncWorker::AsyncWorker(RankContext& ctx, int64_t updates, GradientSource& source, ServerLinks& links,
                         AsyncObserver& observer)
    : ctx_(ctx),
      updates_(updates),
      source_(source),
      links_(links),
      observer_(observer),
      token_(ctx.device().NewTensor(Shape{1}, DType::kF32, Category::kOther)),
      fetches_(links.data.size()) {}

void AsyncWorker::Run() {
  stops_ = links_.stop.at(0)->Recv(token_, 0);
  BeginFetch();
  bool goes_on = Fetch();
  for (int64_t gradient = 0; goes_on; ++gradient) {
    observer_.Begin(gradient);
    const std::optional<int64_t> next = observer_.Next(gradient);
    if (next) gradient = *next;
    const double loss = source_.Compute(gradient);
    const Seconds before = ctx_.clock().Now();
    Push();
    goes_on = Fetch() && !(next && gradient + 1 >= updates_);
    observer_.Waited(ctx_.clock().Now() - before);
    observer_.End(gradient, loss);
  }
}

// What server `server` holds of a flat tensor.
Tensor AsyncWorker::ShardOf(const Tensor& flat, size_t server) const {
  const auto servers = static_cast<int64_t>(links_.data.size()), at = static_cast<int64_t>(server);
  const int64_t each = (flat.numel() + servers - 1) / servers;
  return flat.Slice(at * each, std::min(each, flat.numel() - at * each));
}

void AsyncWorker::Push() {
  for (size_t s = 0; s < links_.data.size(); ++s) {
    links_.data[s]->Send(ShardOf(source_.whole().gradient, s), 0);
    if (s == 0) links_.data[s]->Send(source_.loss(), 0);
  }
  BeginFetch();
}

void AsyncWorker::BeginFetch() {
  for (size_t s = 0; s < links_.data.size(); ++s) {
    Tensor shard = ShardOf(source_.whole().data, s);
    fetches_[s] = links_.data[s]->Recv(shard, 0);
  }
}

// Waits for new parameters. Returns false if they are the last ones.
bool AsyncWorker::Fetch() {
  const bool goes_on = Work::WaitAny(std::array{fetches_[0], stops_}) == 0;
  if (!goes_on) {
    stops_.Wait();
    links_.stop[0]->Send(token_, 0);
  }
  for (Work& fetch : fetches_) fetch.Wait();  // the host counts the time
  return goes_on;
}

}  // namespace twofold
