#include "strategies/async_sgd/gossip.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/base/philox.h"
#include "core/base/strings.h"

namespace twofold {

int GossipPartner(uint64_t seed, int active, int64_t step, int passive) {
  const PhiloxKey key = MakeKey(seed, StrCat("gossip partner of ", active));
  return static_cast<int>(Philox(key, static_cast<uint64_t>(step))[0] % static_cast<uint32_t>(passive));
}

GossipWorker::GossipWorker(RankContext& ctx, int64_t steps, uint64_t seed, GradientSource& source,
                           const AsyncUpdate& update, AsyncObserver& observer)
    : ctx_(ctx),
      steps_(steps),
      seed_(seed),
      source_(source),
      update_(update),
      observer_(observer),
      first_passive_(FirstPassive(ctx.world_size())),
      pairs_(MakePairs(ctx.world(), first_passive_, "gossip")),
      optimizer_(update.make_optimizer()) {
  const optim::Slice& whole = source_.whole();
  Tensor data = whole.data;
  ctx.world().Broadcast(data, 0).WaitOn(ctx.device().compute());  // hosts' math libraries may round differently
  optimizer_->Attach(source_.nn(), std::array{whole});
  theirs_ = ctx.device().NewTensor(data.shape(), data.dtype(), Category::kCommunication);
  tokens_ = ctx.device().NewTensor(Shape{static_cast<int64_t>(pairs_.size())}, DType::kF32, Category::kOther);
  source_.nn().Launch(ops::Fill{.out = tokens_, .value = 0});
  if (active()) return;
  // Who asks how often follows from the draws, so nobody must be told when to stop.
  asks_.resize(pairs_.size()), coming_.resize(pairs_.size());
  for (size_t a = 0; a < pairs_.size(); ++a) {
    for (int64_t step = 0; step < steps; ++step) {
      if (GossipPartner(seed, static_cast<int>(a), step, passive()) == ctx.rank() - first_passive_) ++coming_[a];
    }
    ListenTo(a);
  }
}

void GossipWorker::ListenTo(size_t partner) {
  if (coming_[partner] == 0) return;
  Tensor token = tokens_.Slice(static_cast<int64_t>(partner), 1);
  asks_[partner] = pairs_[partner]->Recv(token, 0);
}

// Starts to exchange parameters. Both sides send what they have, and do not change it meanwhile.
Work GossipWorker::Exchange(size_t partner) {
  const int other = active() ? 1 : 0;
  const std::array<P2p, 2> both = {P2p{.kind = P2p::kSend, .tensor = source_.whole().data, .peer = other},
                                   P2p{.kind = P2p::kRecv, .tensor = theirs_, .peer = other}};
  return pairs_[partner]->Batch(both);
}

// This worker's parameters become the mean of both.
void GossipWorker::Mix(Work exchange) {
  exchange.Wait();  // the host counts the time
  const Tensor& own = source_.whole().data;
  source_.nn().Launch(ops::AddTo{.in = theirs_, .out = own});
  source_.nn().Launch(ops::Scale{.x = own, .factor = 0.5});
}

// Exchanges with all that have asked by now. Returns how many these were.
int64_t GossipWorker::Answer() {
  int64_t answered = 0;
  for (size_t a = 0; a < asks_.size(); ++a) {
    if (coming_[a] == 0 || !asks_[a].Test()) continue;
    asks_[a].Wait();
    Mix(Exchange(a));
    --coming_[a], ++answered;
    ListenTo(a);
  }
  return answered;
}

void GossipWorker::AnswerTheRest() {
  while (true) {
    std::vector<Work> open;
    for (size_t a = 0; a < asks_.size(); ++a) {
      if (coming_[a] > 0) open.push_back(asks_[a]);
    }
    if (open.empty()) return;
    Work::WaitAny(open);
    Answer();
  }
}

void GossipWorker::Run() {
  nn::Context& nn = source_.nn();
  bool replays = false;
  for (int64_t step = 0; step < steps_; ++step) {
    observer_.Begin(step);
    const std::optional<int64_t> next = observer_.Next(step);
    if (next) step = *next, replays = true;
    Work exchange;
    if (active()) {
      const auto partner = static_cast<size_t>(GossipPartner(seed_, ctx_.rank(), step, passive()));
      pairs_[partner]->Send(tokens_.Slice(static_cast<int64_t>(partner), 1), 1);
      exchange = Exchange(partner);
    }
    const double loss = source_.Compute(step);
    const Seconds before = ctx_.clock().Now();
    int64_t mixed = 1;
    active() ? Mix(std::move(exchange)) : void(mixed = Answer());
    observer_.Waited(ctx_.clock().Now() - before);
    observer_.Used(mixed);
    nn.step = step;
    optimizer_->Step(nn, optimizer_->learning_rate() * optim::Factor(update_.learning_rate, step),
                     update_.Factor(nn, source_.whole().gradient));
    observer_.End(step, loss);
  }
  if (replays) return;  // nobody asks
  AnswerTheRest();
  Tensor data = source_.whole().data;
  ctx_.world().AllReduce(data, ReduceOp::kAvg).WaitOn(ctx_.device().compute());
}

}  // namespace twofold
