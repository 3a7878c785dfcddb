// Pipeline parallelism: each stage holds one or more parts of a model and passes micro-batches on. The executor runs
// the actions of the stage's schedule (schedule.h) in order. It receives the input of each action and sends its result.
//   Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", NeurIPS:
//     section 2
//   Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC21:
//     section 2.2
//   Qi et al. 2024, "Zero Bubble Pipeline Parallelism", ICLR: section 2
//
// Symbols: p stages, m micro-batches a step, v chunks of the model on each stage.
//   P  bytes of parameters, gradients and optimizer state
//   A  bytes of activations that one micro-batch saves for backward in all layers
//   H  = b t h * (bytes per element): the hidden states between two layers, for a micro-batch of b samples of t tokens;
//      of other models, the activations between two blocks, which may differ from part to part
//   F, B  times of one micro-batch's forward and backward pass through a stage
//   memory         P / p. But only the first stage has the embedding, and only the last one the head; if the two share
//                  a table, both stages have it. Activations take A / (p v) for each part of a micro-batch in flight.
//                  At most, stage s has in flight
//                    GPipe                    m
//                    1F1B, zero bubble H1     min(m, p - s); the first stage then keeps A, as one process does
//                    interleaved (v >= 2)     min(m v, (v - 1) p + 2 (p - s - 1) + 1); the first stage then keeps
//                                             A (1 + (p - 1) / (p v))
//                  Zero bubble H1 also keeps what postponed gradients of weights need: the inputs of matrix products
//                  and the gradients of their outputs. Every stage keeps these for min(m, p) micro-batches; they are
//                  about as large as a micro-batch's activations. Messages take at most 4 H: one received ahead, the
//                  result of the action that runs, and in each direction one earlier result that has not been received
//                  yet. A result is freed once it has been received (Korthikanti et al. 2022, appendix B)
//   communication  H forward and H backward for each micro-batch and pair of neighbouring parts, in point-to-point
//                  messages. So a stage sends 2 m v H bytes a step, the first and the last stage H m less. With tensor
//                  parallelism every tp rank sends all of it; with sequence or context parallelism each rank sends its
//                  part. With `scatter_gather` (Narayanan et al., section 4.1) every tp rank sends 1 / tp of a message
//                  to the rank with the same index, which all-gathers the rest in its own stage: H / tp between stages
//                  and an all-gather of H among the tp ranks for each message
//   compute        1 / p of the work of one process. In each step a stage idles for (p - 1)(F + B) under GPipe and
//                  1F1B, (p - 1)(F + B) / v interleaved, and (p - 1)(F + B - 2 W) under zero bubble H1, where W is the
//                  part of B that computes the weights' gradients
// Use it between nodes, for models whose layers do not fit on the ranks of one node: it sends less data than other
// model parallelism. It needs many micro-batches, since the bubble is (p - 1) / m of the work. 1F1B has the same bubble
// as GPipe and needs less memory. Interleaving makes the bubble smaller, but sends v times as many messages and needs
// more memory. Zero bubble H1 adds no messages; its bubble is a third of 1F1B's if F = B / 2 = W.
// Limits: a part has at least one block. Interleaving needs a multiple of p micro-batches.
//
// Overlap: activations and gradients are sent on streams of their own, four per rank: one in each direction to and from
// either neighbour. A message is received while the action before the one that needs it computes. Before a stage sends
// a message, it waits until its previous message in the same direction has completed. With scatter_gather, no
// computation hides the all-gather, because it runs when the whole message is needed. So scatter_gather pays off if the
// links between tp ranks are faster than those between stages. Sends and receives never share a stream, so no stage
// waits for another one to receive first. pipeline::Validate checks that no schedule deadlocks.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "absl/functional/function_ref.h"
#include "core/comm/device_mesh.h"
#include "core/run/rank_context.h"
#include "strategies/pipeline/schedule.h"

namespace twofold::pipeline {

// The shapes of the messages that a chunk exchanges with the part of the model before it and the part after it. One is
// empty if there is no such part.
struct Boundaries {
  Shape before, after;
};

struct ExecutorOptions {
  int chunks = 1;
  // false, for comparison: a message is received when it is needed. The host waits for it, and for the device before
  // and after every action, so that it never launches an action while another one computes.
  bool overlap = true;
  // All tp ranks have the same tensor to send, so each of them sends only its part. tp must divide the number of
  // elements of every message.
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

  // Runs this stage's `actions` in order. `chunks`: the shapes of each chunk's messages. While an action runs, the
  // trace's label is its name. Throws what communication, allocation and `run` throw.
  void Execute(std::span<const Action> actions, int micro_batches, std::span<const Boundaries> chunks, DType dtype,
               Run run);

 private:
  // Messages of one kind between this stage and one neighbour, in one direction only, on a stream of their own.
  struct Link {
    ProcessGroup* group = nullptr;
    Work last;
  };
  struct Incoming {
    Tensor message;  // with scatter_gather, a part of it
    Shape whole;
    bool forward = false;
    Work work;
  };
  void Connect(DeviceMesh& mesh);
  OwnerScope PassOf(bool forward);  // while a message of it is received
  Incoming Receive(const Action& action, std::span<const Boundaries> chunks, DType dtype);
  Tensor Take(Incoming incoming);
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
