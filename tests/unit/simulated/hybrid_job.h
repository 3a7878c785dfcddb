// What ranks of a hybrid do, in small and at will large: pipeline stages that send one another micro-batches (1F1B),
// layers with collectives along tp, replicas that average gradients along dp. It asks for what trainers ask for, and no
// more.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "core/run/rank_context.h"

namespace twofold {

struct HybridJob {
  MeshShape mesh;
  int layers = 2;  // of a stage
  int micro_batches = 4;
  int launches = 4;                 // of a layer's forward pass; the backward pass has these again, and twice as many
  int64_t rows = 64, hidden = 256;  // of a message: [rows, hidden / tp]
  int64_t gradients = 10'000;       // elements that a stage averages
  int steps = 1;
};

class HybridStage {
 public:
  HybridStage(RankContext& ctx, const HybridJob& job)
      : ctx_(ctx),
        job_(job),
        mesh_(ctx.world(), job.mesh),
        forward_(mesh_.NewGroup(MeshGroup::kPp, "forward")),
        backward_(mesh_.NewGroup(MeshGroup::kPp, "backward")),
        gradients_(mesh_.NewGroup(MeshGroup::kReplicas, "gradients")),
        stage_(mesh_.Coordinate(Axis::kPp)),
        message_(New(job.rows * job.hidden / job.mesh.tp)),
        weight_(New(job.hidden, job.hidden / job.mesh.tp)),
        gradient_(New(job.gradients)) {}

  std::string Run() {
    ctx_.world().Barrier().Wait();
    for (int step = 0; step < job_.steps; ++step) Step();
    Tensor loss = New(1);
    ctx_.world().AllReduce(loss).Wait();
    compute().Synchronize();
    std::string out = absl::StrFormat("%.12g stalled %.12g peak %d", ctx_.clock().Now().value(),
                                      compute().stalled().value(), ctx_.memory().peak.value());
    for (const auto& [key, entry] : ctx_.communication().entries()) {
      StrAppend(&out, " ", key.first, " ", KindName(key.second), " ", entry.count, " ", entry.bytes.value(), " ",
                absl::StrFormat("%.11g", entry.seconds.load()));
    }
    return out;
  }

 private:
  Stream& compute() { return ctx_.device().compute(); }
  Tensor New(int64_t n) { return ctx_.device().NewTensor(Shape{n}, DType::kBF16, Category::kActivations); }
  Tensor New(int64_t m, int64_t n) {
    return ctx_.device().NewTensor(Shape{m, n}, DType::kBF16, Category::kActivations);
  }

  void Layer() {
    Tensor x = New(job_.rows, job_.hidden), y = New(job_.rows, job_.hidden / job_.mesh.tp);
    Tensor part = message_.Slice(0, job_.rows * job_.hidden / job_.mesh.tp);
    ProcessGroup& tp = mesh_.Group(MeshGroup::kTp);
    Work gathered = tp.AllGather(x, part);
    gathered.WaitOn(compute());
    for (int i = 0; i < job_.launches; ++i)
      ctx_.device().Launch(compute(), ops::MatMul{.a = x, .b = weight_, .out = y, .bias = {}});
    Work scattered = tp.ReduceScatter(part, x);
    scattered.WaitOn(compute());
  }
  void Forward() {
    const bool first = stage_ == 0, last = stage_ == job_.mesh.pp - 1;
    if (!first) forward_->Recv(message_, stage_ - 1).WaitOn(compute());
    for (int l = 0; l < job_.layers; ++l) Layer();
    if (!last) sent_.push_back(forward_->Send(message_, stage_ + 1));
  }
  void Backward() {
    const bool first = stage_ == 0, last = stage_ == job_.mesh.pp - 1;
    if (!last) backward_->Recv(message_, stage_ + 1).WaitOn(compute());
    for (int l = 0; l < 3 * job_.layers; ++l) Layer();
    if (!first) sent_.push_back(backward_->Send(message_, stage_ - 1));
  }
  void Step() {
    const int ahead = std::min(job_.mesh.pp - 1 - stage_, job_.micro_batches);
    for (int i = 0; i < ahead; ++i) Forward();
    for (int i = ahead; i < job_.micro_batches; ++i) Forward(), Backward();
    for (int i = 0; i < ahead; ++i) Backward();
    Work averaged = gradients_->AllReduce(gradient_);
    mesh_.Group(MeshGroup::kModel).AllReduce(small_ = New(4)).WaitOn(compute());
    averaged.WaitOn(compute());
    for (const Work& sent : sent_) Work(sent).Wait();
    sent_.clear();
  }

  RankContext& ctx_;
  const HybridJob job_;
  DeviceMesh mesh_;
  std::unique_ptr<ProcessGroup> forward_, backward_, gradients_;
  const int stage_;
  Tensor message_, weight_, gradient_, small_;
  std::vector<Work> sent_;
};

inline auto RunHybrid(const HybridJob& job) {
  return [job](RankContext& ctx) { return HybridStage(ctx, job).Run(); };
}

}  // namespace twofold
