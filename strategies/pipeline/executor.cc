#include "strategies/pipeline/executor.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold::pipeline {

Executor::Executor(RankContext& ctx, DeviceMesh& mesh, const ExecutorOptions& options)
    : ctx_(ctx),
      shape_{.stages = mesh.shape().pp, .chunks = options.chunks},
      stage_(mesh.Coordinate(Axis::kPp)),
      overlap_(options.overlap),
      parts_(options.scatter_gather ? &mesh.Group(MeshGroup::kTp) : nullptr) {
  TWOFOLD_CHECK(shape_.stages > 1 || shape_.chunks == 1, "one stage has one chunk");
  if (shape_.stages > 1) Connect(mesh);
}

// All calls of a group run on one stream. So that no stage has sends and receives on the same stream, pairs of
// neighbours use groups alternately: stages 0 and 1 the first, stages 1 and 2 the second, and so on. The last stage and
// stage 0, which communicate if there are several chunks, use a third group if the first one is already used by stage
// 0.
void Executor::Connect(DeviceMesh& mesh) {
  const int p = shape_.stages, pairs = shape_.chunks > 1 ? p : p - 1;
  // The group of stage s and the stage after it.
  const auto color = [p](int s) { return s == p - 1 && p % 2 == 1 ? 2 : s % 2; };
  const int colors = pairs == p && p % 2 == 1 ? 3 : std::min(pairs, 2);
  for (const bool forward : {false, true}) {
    std::vector<ProcessGroup*> groups;
    for (int c = 0; c < colors; ++c) {
      groups_.push_back(mesh.NewGroup(MeshGroup::kPp, StrCat("pipeline ", forward ? "activations " : "gradients ", c)));
      groups.push_back(groups_.back().get());
    }
    const auto between = [&](int s) { return s >= 0 && s < pairs ? groups[static_cast<size_t>(color(s))] : nullptr; };
    ProcessGroup* const after = between(stage_);
    ProcessGroup* const before = between(stage_ == 0 ? p - 1 : stage_ - 1);
    out_[forward].group = forward ? after : before;
    in_[forward].group = forward ? before : after;
  }
}

Executor::Incoming Executor::Receive(const Action& action, std::span<const Boundaries> chunks, DType dtype) {
  const std::optional<Message> message = ReceivedBy(action, shape_, stage_);
  if (!message) return {};
  ctx_.trace().SetLabel(action.ToString());
  const Boundaries& boundaries = chunks[static_cast<size_t>(action.chunk)];
  const Shape& whole = message->forward ? boundaries.before : boundaries.after;
  const Shape part = parts_ != nullptr ? Shape{whole.numel() / parts_->size()} : whole;
  const OwnerScope pass = PassOf(message->forward);
  Incoming incoming{.message = ctx_.device().NewTensor(part, dtype, Category::kActivations, "message of another stage"),
                    .whole = whole,
                    .forward = message->forward,
                    .work = {}};
  incoming.work = in_[message->forward].group->Recv(incoming.message, message->from);
  return incoming;
}

OwnerScope Executor::PassOf(bool forward) {
  return {ctx_.device().allocator().owners(), {.pass = forward ? "forward" : "backward"}};
}

// Waits for the message and returns it whole; empty if there is none.
Tensor Executor::Take(Incoming incoming) {
  if (overlap_)
    incoming.work.WaitOn(ctx_.device().compute());
  else
    incoming.work.Wait();
  if (parts_ == nullptr || incoming.message.empty()) return std::move(incoming.message);
  const OwnerScope pass = PassOf(incoming.forward);
  Tensor whole = ctx_.device().NewTensor(incoming.whole, incoming.message.dtype(), Category::kActivations,
                                         "whole message of another stage");
  parts_->AllGather(whole, incoming.message).WaitOn(ctx_.device().compute());
  return whole;
}

void Executor::Send(const Action& action, Tensor out) {
  const std::optional<Message> message = SentBy(action, shape_, stage_);
  TWOFOLD_CHECK_EQ(message.has_value(), !out.empty());
  if (!message) return;
  if (parts_ != nullptr) {
    const int64_t part = out.numel() / parts_->size();
    out = out.Slice(part * parts_->rank(), part);
  }
  Link& link = out_[message->forward];
  std::exchange(link.last, Work()).WaitOn(ctx_.device().compute());
  link.last = link.group->Send(out, message->to);
}

void Executor::Execute(std::span<const Action> actions, int micro_batches, std::span<const Boundaries> chunks,
                       DType dtype, Run run) {
  shape_.micro_batches = micro_batches;
  const absl::Cleanup no_label = [this] { ctx_.trace().SetLabel(""); };
  Incoming ahead;
  for (size_t i = 0; i < actions.size(); ++i) {
    Incoming now = overlap_ && i > 0 ? std::exchange(ahead, {}) : Receive(actions[i], chunks, dtype);
    if (overlap_ && i + 1 < actions.size()) ahead = Receive(actions[i + 1], chunks, dtype);
    ctx_.trace().SetLabel(actions[i].ToString());
    Tensor in = Take(std::exchange(now, {}));
    if (!overlap_) ctx_.device().compute().Synchronize();
    Tensor out = run(actions[i], std::move(in));
    if (!overlap_) ctx_.device().compute().Synchronize();
    Send(actions[i], std::move(out));
  }
  for (Link& link : out_) std::exchange(link.last, Work()).WaitOn(ctx_.device().compute());
}

}  // namespace twofold::pipeline
