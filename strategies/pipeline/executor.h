// Pipeline parallelism: each stage holds consecutive parts of a model and passes micro-batches on, running the actions
// of its schedule (schedule.h) in order. The executor runs these actions: it receives what an action needs and sends
// its result.
//   Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", NeurIPS:
//     section 2
//   Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC21:
//     section 2.2
//   Qi et al. 2024, "Zero Bubble Pipeline Parallelism", ICLR: section 2
//
// With p stages, m micro-batches a step and v chunks of the model on each stage; P bytes of parameters, gradients and
// optimizer state; A bytes of activations saved for backward by one micro-batch in all layers; H = b t h * (bytes per
// element), the hidden states between two layers for a micro-batch of b samples of t tokens; F and B the times of one
// micro-batch's forward and backward pass through a stage:
//   memory         P / p, except that only the first stage has the embedding and only the last one the head, and both
//                  have a tied table. Activations take A / (p v) for each part of a micro-batch in flight. Stage s has
//                  in flight at most: GPipe m; 1F1B and zero bubble H1 min(m, p - s), so the first stage keeps A, as
//                  one process does; interleaved (v of at least 2) min(m v, (v - 1) p + 2 (p - s - 1) + 1), so it keeps
//                  A (1 + (p - 1) / (p v)). Zero bubble H1 also keeps what the weights' gradients need until they are
//                  computed: at every stage, for min(m, p) micro-batches, the inputs of matrix products and the
//                  gradients of their outputs, together about as much as a micro-batch's activations. In addition at
//                  most 4 H: a message received ahead, the result of the action that runs, and one earlier result in
//                  each direction that has not been received yet. A stage's output is not kept: it is freed once it has
//                  been received (Korthikanti et al. 2022, appendix B)
//   communication  H forward and H backward for each micro-batch and pair of neighbouring parts: a stage sends 2 m v H
//                  bytes a step, the first and the last stage H m less, in point-to-point messages. With tensor
//                  parallelism every tp rank sends all of it; with sequence or context parallelism each rank sends its
//                  part. With `scatter_gather` (Narayanan et al., section 4.1) every tp rank sends 1 / tp of a message
//                  to the rank with the same index, which all-gathers the rest in its own stage: H / tp between stages
//                  and an all-gather of H among the tp ranks for each message
//   compute        1 / p of one process's. In each step a stage idles for (p - 1)(F + B) under GPipe and 1F1B,
//                  (p - 1)(F + B) / v interleaved, and (p - 1)(F + B - 2 W) under zero bubble H1, where W is the part
//                  of B that computes the weights' gradients
// Use it between nodes, for models whose layers do not fit on the ranks of one node: it sends the least data. It needs
// many micro-batches, since the bubble is (p - 1) / m of the work. 1F1B has GPipe's bubble and needs less memory.
// Interleaving has a smaller bubble for v times the messages and some memory. Zero bubble H1 adds no messages; its
// bubble is a third of 1F1B's if F = B / 2 = W.
// Limits: a part has at least one block. Interleaving needs a multiple of p micro-batches.
//
// Overlap: activations and gradients are sent on streams of their own, four per rank: one in each direction to and from
// either neighbour. A message is received while the action before the one that needs it computes. A sender waits for a
// message to be received only when it has the next one to send in the same direction. With scatter_gather, nothing
// hides the all-gather, which runs when the whole message is needed; it pays off if tp ranks have faster links than
// stages. Sends and receives never share a stream, so no stage waits for another one to receive first.
// pipeline::Validate checks that no schedule deadlocks.
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
  // false, for comparison: a message is received when it is needed. The host waits for it, and for the device before
  // and after every action, so that it never launches an action while another one computes.
  bool overlap = true;
  // The tp ranks, which have equal tensors, send one part of a message each. tp must divide the number of its elements.
  bool scatter_gather = false;
};

// One rank's stage, used from the rank's thread. All arguments must outlive it.
class Executor {
 public:
  // Runs one action. `in` is the message that it receives; returns the message that it sends. Either is empty if there
  // is none.
  using Run = absl::FunctionRef<Tensor(const Action& action, Tensor in)>;

  // Collective over the mesh's world.
  Executor(RankContext& ctx, DeviceMesh& mesh, const ExecutorOptions& options);

  // Runs this stage's `actions` in order. Every message has the shape `boundary`. While an action runs, the trace's
  // label is its name. Throws what communication, allocation and `run` throw.
  void Execute(std::span<const Action> actions, int micro_batches, const Shape& boundary, DType dtype, Run run);

 private:
  // Messages of one kind between this stage and one neighbour, in one direction only, on a stream of their own.
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
  ProcessGroup* const parts_;  // with scatter_gather, the ranks that send one part of a message each; else null
  std::vector<std::unique_ptr<ProcessGroup>> groups_;
  std::array<Link, 2> in_, out_;  // [0] gradients, [1] activations
};

}  // namespace twofold::pipeline
