// Pipeline parallelism: stages hold consecutive parts of a model and pass micro-batches on, each doing the actions of its schedule
// (schedule.h) in their order. This runs them: what an action needs is received, what comes of it is sent.
//   Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", NeurIPS: section 2
//   Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC21: section 2.2
//   Qi et al. 2024, "Zero Bubble Pipeline Parallelism", ICLR: section 2
//
// With p stages, m micro-batches a step, v chunks of the model on each stage; P bytes of parameters, gradients and optimizer state;
// A bytes of activations that backward needs of one micro-batch, all layers together; H = b t h element bytes of hidden states
// between two layers of a micro-batch of b samples of t tokens; F and B the times of one micro-batch's passes through a stage:
//   memory         P / p, but embedding and head, which only the ends have, and a tied table, which both have; and of activations
//                  A / (p v) for each part of a micro-batch in flight. In flight at stage s, at most: GPipe m; 1F1B and zero bubble H1
//                  min(m, p - s), so that the first stage keeps A, as one process does; interleaved (v = 2 or more)
//                  min(m v, (v - 1) p + 2 (p - s - 1) + 1), so that it keeps A (1 + (p - 1) / (p v)). Zero bubble H1 keeps what
//                  weights' gradients need until they are done: of min(m, p) micro-batches at every stage, the inputs of products
//                  and the gradients of their outputs, which together are about as much as a micro-batch's activations. Beyond that at most 4 H:
//                  a message that comes ahead, and one each way that is not yet taken. A stage's output is no activation of its
//                  own: it is freed as soon as it was taken (Korthikanti et al. 2022, appendix B)
//   communication  H forward and H back for each micro-batch and pair of neighbouring parts: a stage sends 2 m v H bytes a step, or
//                  at the ends H m less, in messages between two ranks. Under tensor parallelism every rank of tp sends all of
//                  it; under sequence parallelism, and of context parallelism, its part. `scatter_gather` (Narayanan et al.,
//                  section 4.1): every rank of tp sends 1 / tp of it to the rank of its place, which gathers the rest from
//                  its own stage: H / tp between stages and an all-gather of H among the ranks of tp for each message
//   compute        that of one process, 1 / p of it. A stage idles, in a step, for (p - 1)(F + B) under GPipe and 1F1B,
//                  (p - 1)(F + B) / v interleaved, (p - 1)(F + B - 2 W) under zero bubble H1, where weights' gradients take W of B
// Use it for models whose layers do not fit on the ranks of a node, between nodes: it sends least. It needs many micro-batches:
// the bubble is (p - 1) / m of the work. 1F1B has GPipe's bubble and less memory. Interleaving costs v times the messages and some
// memory for a smaller bubble. Zero bubble H1 costs no message; its bubble is a third of 1F1B's where F = B / 2 = W. Limits: a
// part has a block at least; interleaving needs a multiple of p micro-batches.
//
// Overlap: activations and gradients travel on streams of their own, four at a rank: one each way to and from either neighbour. A
// message is received while the action before the one that needs it computes, and a sender goes on: it waits for a message to be
// taken when it has the next one to send the same way. Parts are gathered when the whole is needed, which nothing hides: that
// pays where ranks of tp have faster links than stages. Because sends and receives never stand in one stream, no stage waits for
// another to receive first; that no schedule deadlocks so is what pipeline::Validate checks.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "absl/functional/function_ref.h"
#include "core/comm/device_mesh.h"
#include "core/run/rank_context.h"
#include "strategies/pipeline/schedule.h"

namespace twofold::pipeline {

struct ExecutorOptions {
  int chunks = 1;
  // false, for comparison: a message is received when it is needed, and the host waits for it, and for the device before and after
  // every action, so that it launches no action while another one computes.
  bool overlap = true;
  bool scatter_gather = false;  // ranks of tp, which have equal tensors, send a part each; tp divides a message's elements
};

// One rank's stage. Used from its thread; everything handed in outlives it.
class Executor {
 public:
  // Does one action: from what it receives to what it sends, each empty where there is none.
  using Run = absl::FunctionRef<Tensor(const Action& action, Tensor in)>;

  // Collective over the mesh's world.
  Executor(RankContext& ctx, DeviceMesh& mesh, const ExecutorOptions& options);

  // Does `actions`, of this stage, in order. Every message is a tensor like `boundary`. The trace's label is the action's name
  // while it runs. Throws what communication, allocation and `run` throw.
  void Execute(std::span<const Action> actions, int micro_batches, const Shape& boundary, DType dtype, Run run);

 private:
  // Messages of one kind between this stage and a neighbour, on a stream that has nothing else; one way only.
  struct Link {
    ProcessGroup* group = nullptr;
    Work last;
  };
  struct Incoming {
    Tensor message;
    Work work;
  };
  void Connect(DeviceMesh& mesh);
  Incoming Receive(const Action& action, const Shape& boundary, DType dtype);
  Tensor Take(Incoming incoming, const Shape& boundary);
  void Send(const Action& action, Tensor out);

  RankContext& ctx_;
  PipelineShape shape_;
  const int stage_;
  const bool overlap_;
  ProcessGroup* const parts_;  // ranks that share a message; null: each has its own
  std::vector<std::unique_ptr<ProcessGroup>> groups_;
  std::array<Link, 2> in_, out_;  // gradients, activations
};

}  // namespace twofold::pipeline
