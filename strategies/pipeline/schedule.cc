#include "strategies/pipeline/schedule.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::pipeline {
namespace {

using Actions = std::vector<Action>;

// Huang et al. 2019, figure 2c: backward passes run in reverse order.
Actions GPipe(const PipelineShape& shape) {
  Actions actions;
  for (int i = 0; i < shape.micro_batches; ++i) actions.push_back({Action::kForward, i});
  for (int i = shape.micro_batches; i-- > 0;) actions.push_back({Action::kBackward, i});
  return actions;
}

// The k-th forward or backward pass of a stage with several chunks (Narayanan et al. 2021, figure 4). The stage runs p
// micro-batches through one chunk, then the same ones through the next chunk, and so on; then it continues with the
// next p micro-batches. Backward passes take the chunks in reverse order.
Action InTurn(Action::Kind kind, const PipelineShape& shape, int k) {
  const int round = k / shape.parts(), within = k % shape.parts(), chunk = within / shape.stages;
  return {kind, round * shape.stages + within % shape.stages,
          kind == Action::kForward ? chunk : shape.chunks - 1 - chunk};
}

// Warm-up, then alternating forward and backward passes, then the remaining backward passes.
Actions OneFOneB(const PipelineShape& shape, int warmup) {
  const int all = shape.micro_batches * shape.chunks;
  warmup = std::min(warmup, all);
  const auto in_turn = [&](Action::Kind kind, int k) {
    return shape.chunks == 1 ? Action{kind, k} : InTurn(kind, shape, k);
  };
  Actions actions;
  for (int k = 0; k < warmup; ++k) actions.push_back(in_turn(Action::kForward, k));
  for (int k = 0; k < all; ++k) {
    if (warmup + k < all) actions.push_back(in_turn(Action::kForward, warmup + k));
    actions.push_back(in_turn(Action::kBackward, k));
  }
  return actions;
}

// Qi et al. 2024, figure 3 (top). Each input gradient is sent before its weights' gradients are computed. Stage s
// postpones the weights' gradients by s micro-batches, so every stage keeps the same number of micro-batches, at most
// p.
Actions ZeroBubbleH1(const PipelineShape& shape, int stage) {
  const int m = shape.micro_batches, warmup = std::min(shape.stages - stage - 1, m);
  Actions actions;
  for (int i = 0; i < warmup; ++i) actions.push_back({Action::kForward, i});
  for (int i = 0; i < m; ++i) {
    if (warmup + i < m) actions.push_back({Action::kForward, warmup + i});
    actions.push_back({Action::kBackwardInput, i});
    if (i >= stage) actions.push_back({Action::kBackwardWeights, i - stage});
  }
  for (int i = std::max(m - stage, 0); i < m; ++i) actions.push_back({Action::kBackwardWeights, i});
  return actions;
}

bool BeginsBackward(const Action& a) { return a.kind == Action::kBackward || a.kind == Action::kBackwardInput; }
bool EndsBackward(const Action& a) { return a.kind == Action::kBackward || a.kind == Action::kBackwardWeights; }

int Most(const Actions& actions, bool (*ends)(const Action&)) {
  int now = 0, most = 0;
  for (const Action& a : actions) {
    if (a.kind == Action::kForward) most = std::max(most, ++now);
    if (ends(a)) --now;
  }
  return most;
}

std::string ToString(const Message& m) {
  return StrCat(m.forward ? "the activation" : "the gradient", " of micro-batch ", m.micro_batch, " from part ",
                m.part);
}

// The messages from one stage to another, of one kind, in order.
using Channels = std::map<std::tuple<bool /* forward */, int /* from */, int /* to */>, std::vector<Message>>;

void Append(const std::optional<Message>& m, Channels& channels) {
  if (m && m->from != m->to) channels[{m->forward, m->from, m->to}].push_back(*m);
}

// Checks that each action comes once, and after those that it needs on its own stage.
absl::Status CheckStage(const Actions& actions, const PipelineShape& shape, int stage) {
  const auto wrong = [&](const auto&... what) { return InvalidArgument("stage ", stage, ": ", what...); };
  enum { kNothing, kForwards, kInput, kDone };
  std::vector<int> state(static_cast<size_t>(shape.micro_batches * shape.chunks), kNothing);
  for (const Action& a : actions) {
    if (a.micro_batch < 0 || a.micro_batch >= shape.micro_batches || a.chunk < 0 || a.chunk >= shape.chunks) {
      return wrong(a.ToString(), " does not exist: there are ", shape.micro_batches, " micro-batches and ",
                   shape.chunks, " chunks");
    }
    int& at = state[static_cast<size_t>(a.micro_batch * shape.chunks + a.chunk)];
    const int before = a.kind == Action::kForward ? kNothing : a.kind == Action::kBackwardWeights ? kInput : kForwards;
    if (at > before) return wrong(a.ToString(), " is repeated or comes too late");
    if (at < before) return wrong(a.ToString(), " comes before an action that it needs");
    at = a.kind == Action::kForward ? kForwards : a.kind == Action::kBackwardInput ? kInput : kDone;
  }
  for (size_t i = 0; i < state.size(); ++i) {
    if (state[i] == kDone) continue;
    constexpr Action::Kind kNext[] = {Action::kForward, Action::kBackward, Action::kBackwardWeights};
    const int at = static_cast<int>(i);
    return wrong(Action{kNext[state[i]], at / shape.chunks, at % shape.chunks}.ToString(), " is missing");
  }
  return absl::OkStatus();
}

absl::Status CheckOrder(const std::vector<Actions>& stages, const PipelineShape& shape) {
  Channels sent, received;
  for (size_t s = 0; s < stages.size(); ++s) {
    for (const Action& a : stages[s]) {
      Append(SentBy(a, shape, static_cast<int>(s)), sent);
      Append(ReceivedBy(a, shape, static_cast<int>(s)), received);
    }
  }
  for (const auto& [channel, messages] : received) {
    const std::vector<Message>& others = sent[channel];
    for (size_t i = 0; i < messages.size(); ++i) {
      if (i < others.size() && messages[i] == others[i]) continue;
      return InvalidArgument("stage ", std::get<2>(channel), " expects ", ToString(messages[i]), " where stage ",
                             std::get<1>(channel), " sends ", i < others.size() ? ToString(others[i]) : "nothing more");
    }
  }
  return absl::OkStatus();
}

// Plays one stage's actions.
class Walker {
 public:
  Walker(const Actions& actions, const PipelineShape& shape, int stage)
      : actions_(actions), shape_(shape), stage_(stage) {}

  // What all stages have sent and asked for so far. A message is transferred once it is in both.
  struct Offers {
    explicit Offers(const PipelineShape& shape)
        : sent(static_cast<size_t>(2 * shape.micro_batches * shape.parts())), asked(sent.size()) {}
    std::vector<char> sent, asked;
  };

  bool done() const { return next_ == actions_.size() && !(*this)[true] && !(*this)[false]; }
  // Advances as far as possible. Returns whether it advanced.
  bool Advance(Offers& offers) {
    bool moved = false;
    while (!done() && Step(offers)) moved = true;
    return moved;
  }
  std::string WaitsFor() const {
    const std::optional<Message>& untaken = (*this)[ran_ && waiting_ ? waiting_->forward : !(*this)[false]];
    if (ran_ || next_ == actions_.size())
      return StrCat("stage ", stage_, " waits until stage ", untaken->to, " takes ", ToString(*untaken));
    return StrCat("stage ", stage_, " waits in ", actions_[next_].ToString(), " for ",
                  ToString(*ReceivedBy(actions_[next_], shape_, stage_)));
  }

 private:
  size_t IndexOf(const Message& m) const {
    return static_cast<size_t>((m.micro_batch * shape_.parts() + m.part) * 2 + (m.forward ? 1 : 0));
  }
  // The last message sent in this direction, unless it is known to have been received.
  std::optional<Message>& operator[](bool forward) { return untaken_[forward ? 1 : 0]; }
  const std::optional<Message>& operator[](bool forward) const { return untaken_[forward ? 1 : 0]; }
  bool Taken(std::optional<Message>& message, const Offers& offers) const {
    if (message && offers.asked[IndexOf(*message)]) message.reset();
    return !message;
  }

  // Before an action, waits for what it receives. After it, sends its result. At the end, waits until all messages are
  // received.
  bool Step(Offers& offers) {
    if (next_ == actions_.size()) return Taken((*this)[true], offers) && Taken((*this)[false], offers);
    const Action& action = actions_[next_];
    if (!ran_) {
      const std::optional<Message> in = ReceivedBy(action, shape_, stage_);
      if (in) offers.asked[IndexOf(*in)] = true;
      if (in && !offers.sent[IndexOf(*in)]) return false;
      ran_ = true;
      waiting_ = SentBy(action, shape_, stage_);
      return true;
    }
    if (waiting_) {
      std::optional<Message>& last = (*this)[waiting_->forward];
      if (!Taken(last, offers)) return false;
      offers.sent[IndexOf(*waiting_)] = true;
      if (waiting_->from != waiting_->to) last = waiting_;
    }
    ran_ = false;
    ++next_;
    return true;
  }

  const Actions& actions_;
  const PipelineShape& shape_;
  const int stage_;
  size_t next_ = 0;
  bool ran_ = false;  // the action at next_ has run; its message is still to be sent
  std::optional<Message> waiting_, untaken_[2];
};

absl::Status CheckProgress(const std::vector<Actions>& stages, const PipelineShape& shape) {
  Walker::Offers offers(shape);
  std::vector<Walker> walkers;
  for (size_t s = 0; s < stages.size(); ++s) walkers.emplace_back(stages[s], shape, static_cast<int>(s));
  for (bool moved = true; moved;) {
    moved = false;
    for (Walker& w : walkers) moved |= w.Advance(offers);
  }
  std::string stuck;
  for (const Walker& w : walkers) {
    if (!w.done()) StrAppend(&stuck, stuck.empty() ? "" : "; ", w.WaitsFor());
  }
  return stuck.empty() ? absl::OkStatus() : InvalidArgument(stuck);
}

}  // namespace

std::string Action::ToString() const {
  constexpr std::string_view kLetters = "FBIW";
  return StrCat(kLetters.substr(static_cast<size_t>(kind), 1), micro_batch, chunk > 0 ? StrCat(".", chunk) : "");
}

absl::Status CheckSchedule(Schedule schedule, const PipelineShape& shape) {
  TWOFOLD_CHECK(shape.stages >= 1 && shape.micro_batches >= 1 && shape.chunks >= 1,
                "a pipeline has stages, micro-batches and chunks");
  if (shape.chunks == 1) return absl::OkStatus();
  if (schedule != Schedule::kInterleaved) {
    return InvalidArgument("only the interleaved schedule supports several chunks of the model per stage (got ",
                           shape.chunks, ")");
  }
  if (shape.micro_batches % shape.stages == 0) return absl::OkStatus();
  return InvalidArgument("an interleaved schedule with ", shape.stages,
                         " stages needs a number of micro-batches that is a multiple of ", shape.stages, " (got ",
                         shape.micro_batches, ")");
}

Actions ActionsOf(Schedule schedule, const PipelineShape& shape, int stage) {
  const absl::Status possible = CheckSchedule(schedule, shape);
  TWOFOLD_CHECK(possible.ok(), std::string(possible.message()));
  TWOFOLD_CHECK(stage >= 0 && stage < shape.stages, "the stage exists");
  const int after = shape.stages - stage - 1;  // number of later stages
  switch (schedule) {
    case Schedule::kGPipe: return GPipe(shape);
    case Schedule::kOneFOneB: return OneFOneB(shape, after);
    case Schedule::kInterleaved:
      return OneFOneB(shape, shape.chunks == 1 ? after : 2 * after + (shape.chunks - 1) * shape.stages);
    case Schedule::kZeroBubbleH1: return ZeroBubbleH1(shape, stage);
  }
  return {};
}

std::optional<Message> ReceivedBy(const Action& action, const PipelineShape& shape, int stage) {
  const int part = action.chunk * shape.stages + stage;
  if (action.kind == Action::kBackwardWeights) return std::nullopt;
  const bool forward = action.kind == Action::kForward;
  const int sender = forward ? part - 1 : part + 1;
  if (sender < 0 || sender == shape.parts()) return std::nullopt;
  return Message{forward, action.micro_batch, sender, sender % shape.stages, stage};
}

std::optional<Message> SentBy(const Action& action, const PipelineShape& shape, int stage) {
  const int part = action.chunk * shape.stages + stage;
  if (action.kind == Action::kBackwardWeights) return std::nullopt;
  const bool forward = action.kind == Action::kForward;
  const int receiver = forward ? part + 1 : part - 1;
  if (receiver < 0 || receiver == shape.parts()) return std::nullopt;
  return Message{forward, action.micro_batch, part, stage, receiver % shape.stages};
}

absl::Status Validate(const std::vector<Actions>& stages, const PipelineShape& shape) {
  if (static_cast<int>(stages.size()) != shape.stages) {
    return InvalidArgument("there are actions for ", stages.size(), " stages, but the pipeline has ", shape.stages);
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    if (absl::Status status = CheckStage(stages[s], shape, static_cast<int>(s)); !status.ok()) return status;
  }
  if (absl::Status status = CheckOrder(stages, shape); !status.ok()) return status;
  return CheckProgress(stages, shape);
}

int MostInFlight(const Actions& actions) { return Most(actions, BeginsBackward); }
int MostUnfinished(const Actions& actions) { return Most(actions, EndsBackward); }

}  // namespace twofold::pipeline
