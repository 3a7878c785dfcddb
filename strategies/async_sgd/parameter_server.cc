#include "strategies/async_sgd/parameter_server.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/base/strings.h"

namespace twofold {
namespace {

// How many elements of server `server`'s shard are parameters.
int64_t HeldBy(const FlatParameter& flat, int64_t server) {
  return std::clamp<int64_t>(flat.numel() - server * flat.shard_numel(), 0, flat.shard_numel());
}

}  // namespace

ParameterServer::ParameterServer(RankContext& ctx, const Training& training, ServerLinks& links,
                                 AsyncObserver& observer)
    : ctx_(ctx),
      training_(training),
      links_(links),
      observer_(observer),
      nn_{.device = ctx.device(), .stream = ctx.device().compute(), .seed = training.seed},
      server_(ctx.rank()),
      model_(MakeModel(training.model, training.types)),
      flat_(model_->Parameters(), training.options.servers),
      held_(HeldBy(flat_, server_)),
      schedule_({.workers = static_cast<int>(links.data.size()),
                 .updates = training.updates,
                 .staleness = training.options.staleness}),
      optimizer_(training.update.make_optimizer()) {
  Device& device = ctx.device();
  const Shape shape{flat_.shard_numel()};
  const DType gradient = training.options.gradient, loss = ops::AccumulationType(training.types.parameter);
  shard_ = device.NewTensor(shape, flat_.dtype(), Category::kParameters);
  flat_.Initialize(device, nn_.stream, training.seed, shard_, server_ * flat_.shard_numel());
  sum_ = device.NewTensor(shape, ops::AccumulationType(gradient), Category::kGradients);
  inboxes_.resize(links.data.size());
  for (Inbox& inbox : inboxes_) {
    inbox.gradient = device.NewTensor(shape, gradient, Category::kGradients);
    if (held_ < shape.numel())
      nn_.Launch(ops::Fill{.out = inbox.gradient.Slice(held_, shape.numel() - held_), .value = 0});
    if (leads()) inbox.loss = device.NewTensor(Shape{1}, loss, Category::kOther);
  }
  if (leads()) loss_sum_ = device.NewTensor(Shape{1}, loss, Category::kOther);
  tokens_ = device.NewTensor(Shape{workers()}, DType::kF32, Category::kOther);
  nn_.Launch(ops::Fill{.out = tokens_, .value = 0});
  const optim::Slice slice{
      .name = StrCat("server ", server_), .data = shard_, .gradient = sum_, .parts = flat_.PartsOf(server_)};
  optimizer_->Attach(nn_, std::array{slice});
  for (int w = 0; w < workers(); ++w) idle_.push_back(w);
}

void ParameterServer::Run() {
  for (int w = 0; !leads() && w < workers(); ++w) {
    Tensor token = tokens_.Slice(w, 1);
    orders_.push_back(links_.order[0][static_cast<size_t>(w)]->Recv(token, 0));
  }
  heard_.resize(leads() ? links_.order.size() : 0);
  while (schedule_.done() < training_.updates) {
    observer_.Begin(schedule_.done());
    if (const std::optional<int64_t> next = observer_.Next(schedule_.done())) schedule_.Skip(*next - schedule_.done());
    StartWhoMay();
    while (!schedule_.complete()) {
      Take(leads() ? NextGradient() : NextOrder());
      if (!schedule_.complete()) StartWhoMay();  // else on newer parameters, after the update
    }
    const std::optional<double> loss = Update();
    observer_.End(schedule_.done() - 1, loss);
  }
  Finish();
}

// ---- Workers: given parameters, in the order in which they came back ----

void ParameterServer::StartWhoMay() {
  while (!idle_.empty() && schedule_.MayStart()) {
    Start(idle_.front());
    idle_.pop_front();
  }
}

void ParameterServer::Start(int worker) {
  const auto w = static_cast<size_t>(worker);
  Inbox& inbox = inboxes_[w];
  if (inbox.full) Fold(w);  // its place is needed
  schedule_.Start(worker);
  sends_.push_back(SendParameters(w));
  Tensor gradient = inbox.gradient.Slice(0, held_);
  inbox.arrives = links_.data[w]->Recv(gradient, 1);
  if (leads()) inbox.arrives = links_.data[w]->Recv(inbox.loss, 1);  // a group's work runs in order
}

Work ParameterServer::SendParameters(size_t worker) { return links_.data[worker]->Send(shard_.Slice(0, held_), 1); }

// ---- Gradients: taken as they come, if their places are not kept for older ones ----

// The workers whose gradients the next update may take, those that began first first. The same on all servers.
std::vector<int> ParameterServer::MayTake() const {
  std::vector<int> may;
  for (int w = 0; w < workers(); ++w) {
    if (schedule_.MayTake(w)) may.push_back(w);
  }
  std::stable_sort(may.begin(), may.end(), [&](int a, int b) { return schedule_.began(a) < schedule_.began(b); });
  return may;
}

// Server 0's choice: the first to arrive; of several, the oldest.
int ParameterServer::NextGradient() {
  const std::vector<int> may = MayTake();
  std::vector<Work> works;
  for (const int w : may) works.push_back(inboxes_[static_cast<size_t>(w)].arrives);
  const Seconds before = ctx_.clock().Now();
  const int worker = may[Work::WaitAny(works)];
  observer_.Waited(ctx_.clock().Now() - before);
  TellOrder(worker);
  return worker;
}

// One order at a time, so that a follower that hears several has no doubt which came first.
void ParameterServer::TellOrder(int worker) {
  const auto w = static_cast<size_t>(worker);
  for (size_t f = 0; f < links_.order.size(); ++f) {
    ProcessGroup& group = *links_.order[f][w];
    std::exchange(heard_[f], Work()).Wait();
    Tensor token = tokens_.Slice(worker, 1);
    group.Send(token, 1);
    heard_[f] = group.Recv(token, 1);
  }
}

// A follower's: what server 0 has chosen.
int ParameterServer::NextOrder() {
  const std::vector<int> may = MayTake();
  std::vector<Work> works;
  for (const int w : may) works.push_back(orders_[static_cast<size_t>(w)]);
  const Seconds before = ctx_.clock().Now();
  const int worker = may[Work::WaitAny(works)];
  const auto w = static_cast<size_t>(worker);
  Tensor token = tokens_.Slice(worker, 1);
  orders_[w].Wait();
  links_.order[0][w]->Send(token, 0);
  orders_[w] = links_.order[0][w]->Recv(token, 0);
  inboxes_[w].arrives.Wait();
  observer_.Waited(ctx_.clock().Now() - before);
  return worker;
}

void ParameterServer::Take(int worker) {
  Inbox& inbox = inboxes_[static_cast<size_t>(worker)];
  std::exchange(inbox.arrives, Work()).WaitOn(ctx_.device().compute());
  const int64_t staleness = schedule_.Take(worker);
  inbox.weight = training_.options.staleness_aware ? 1.0 / static_cast<double>(std::max<int64_t>(1, staleness)) : 1;
  inbox.full = true;
  idle_.push_back(worker);
  if (leads()) observer_.Used(staleness);
}

void ParameterServer::Fold(size_t worker) {
  Inbox& inbox = inboxes_[worker];
  const auto add = [&](const Tensor& in, const Tensor& sum) {
    summed_ ? nn_.Launch(ops::AddTo{.in = in, .out = sum}) : nn_.Launch(ops::Cast{.in = in, .out = sum});
  };
  if (inbox.weight != 1) nn_.Launch(ops::Scale{.x = inbox.gradient, .factor = inbox.weight});
  add(inbox.gradient, sum_);
  if (leads()) add(inbox.loss, loss_sum_);
  summed_ = true, inbox.full = false;
}

// ---- Updates ----

// Gradients are added in the order of workers where possible, so that a bound of 0 gives the sums of an all-reduce.
// Returns the mean of their losses, on server 0.
std::optional<double> ParameterServer::Update() {
  for (size_t w = 0; w < inboxes_.size(); ++w) {
    if (inboxes_[w].full) Fold(w);
  }
  summed_ = false;
  nn_.Launch(ops::Scale{.x = sum_, .factor = 1.0 / workers()});
  for (Work& send : sends_) send.WaitOn(ctx_.device().compute());
  sends_.clear();
  const Tensor factor = training_.update.Factor(nn_, sum_, links_.servers.get());
  const int64_t update = schedule_.done();
  nn_.step = update;
  optimizer_->Step(nn_, optimizer_->learning_rate() * optim::Factor(training_.update.learning_rate, update), factor);
  schedule_.Update();
  if (!leads()) return std::nullopt;
  return ctx_.device().Item(loss_sum_, StandIn{std::log(static_cast<double>(training_.model.input().classes)), "loss"});
}

// All gradients have been taken, and every worker waits for parameters. It learns from server 0 that these are the last
// ones: only once it has answered does server 0 send them.
void ParameterServer::Finish() {
  if (leads()) {
    for (size_t w = 0; w < links_.stop.size(); ++w) links_.stop[w]->Send(tokens_.Slice(static_cast<int64_t>(w), 1), 1);
    for (size_t w = 0; w < links_.stop.size(); ++w) {
      Tensor token = tokens_.Slice(static_cast<int64_t>(w), 1);
      links_.stop[w]->Recv(token, 1).Wait();
    }
  }
  for (size_t w = 0; w < inboxes_.size(); ++w) sends_.push_back(SendParameters(w));
  for (Work& send : sends_) send.Wait();
  sends_.clear();
  // Nothing may be left that waits: followers wait for one more order for each worker.
  for (Work& heard : heard_) heard.Wait();
  for (const ServerLinks::Groups& row : links_.order) {
    for (size_t w = 0; leads() && w < row.size(); ++w)
      row[w]->Send(tokens_.Slice(static_cast<int64_t>(w), 1), 1).Wait();
  }
  for (Work& order : orders_) order.Wait();
}

}  // namespace twofold
