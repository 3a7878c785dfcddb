// What a training run is made of, in the options of its parts. from_spec.h fills it in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"
#include "strategies/async_sgd/options.h"
#include "strategies/checkpoint/load.h"
#include "strategies/checkpoint/save.h"
#include "strategies/layout_factory.h"
#include "strategies/local_update/local_update.h"
#include "strategies/loss_scaler.h"
#include "strategies/model_parallel/layers.h"
#include "strategies/models/model.h"
#include "strategies/pipeline/executor.h"
#include "strategies/pipeline/schedule.h"
#include "strategies/recorder.h"
#include "strategies/validation.h"

namespace twofold {

struct TrainingOptions;

// Training whose ranks may be lost, leave and join (train_elastic.h). A replica is the mesh's unit along dp.
struct ElasticOptions {
  int64_t min_dp = 1, max_dp = 1;  // replicas that train
  // The same training with `dp` replicas; null if that is not possible. May be called by several threads.
  std::function<std::shared_ptr<const TrainingOptions>(int64_t dp)> with;
  bool keeps_global_batch = true;  // false: `with` gives other batches, and samples are counted
  bool from_peers = true;          // false: after a loss the training goes on from the last checkpoint
  bool shard_copies = false;       // data_parallel/shard_copy.h
  double reform_timeout_s = 30;
};

// The same on every rank. Immutable while ranks run, so that threads may share it.
struct TrainingOptions {
  std::shared_ptr<const Model> model;
  ModelTypes types = DType::kF32;
  nn::Recomputation recomputation;

  // How the model is laid out over ranks.
  MeshShape mesh;
  ParallelOptions layers;
  std::vector<nn::ModelPart> parts;  // chunk c of stage s is parts[c * mesh.pp + s]
  pipeline::Schedule schedule = pipeline::Schedule::kOneFOneB;
  pipeline::PipelineShape pipeline;
  pipeline::ExecutorOptions executor;
  LayoutOptions layout;

  // The data and the length of the training.
  int64_t steps = 0;
  // Of the first steps: how many micro-batches they have, if fewer than pipeline.micro_batches. The rest of their
  // samples is left out. For predictions of synchronous training that is not elastic.
  std::vector<int> micro_batches = {};
  int64_t report_loss_every = 1;              // steps
  int64_t alike_from = 0;                     // earlier steps send or compute something else (warm-up of a codec)
  int64_t global_batch = 1, micro_batch = 1;  // samples
  bool shuffle = true, set_epoch = true;
  uint64_t seed = 0;

  // The update.
  std::function<std::unique_ptr<optim::Optimizer>()> make_optimizer;
  optim::LrSchedule learning_rate;
  double clip_norm = 0;  // 0: gradients are not clipped
  LossScalerOptions loss_scale;
  bool offload = false;                            // the optimizer or the layout uses host memory
  std::optional<ElasticOptions> elastic;           // nullopt: a lost rank ends the run
  std::optional<AsyncSgdOptions> async_sgd;        // `mesh` is that of the workers; nullopt: synchronous
  std::optional<LocalUpdateOptions> local_update;  // nullopt: all ranks that share the batch take one step together

  // What happens between steps.
  struct Validating {
    int64_t every_steps;
    ValidationOptions options;
  };
  std::optional<Validating> validation;
  struct Saving {
    std::optional<int64_t> every_steps;  // nullopt: only after the last step
    bool on_signal = false;              // also when SIGTERM asks the run to end
    checkpoint::SaveOptions options;
  };
  std::optional<Saving> saving;
  std::optional<std::string> resume;  // the checkpoint from which training continues, or the folder around it
  checkpoint::ResumingRun run;
  RecorderOptions recorder;

  // Called on every rank when it begins to train after so many steps, and after each step, with what it holds
  // (RankTrainer::Held) and what compression has left out of its messages. The rank's device has done all of it. Null:
  // nobody watches.
  using Watch = std::function<void(RankContext&, int64_t steps_done, const std::vector<checkpoint::LocalPiece>& held)>;
  Watch watch;

  // How the ranks of a stage share a micro-batch of `samples`.
  BoundaryShare Share(int64_t samples) const {
    return {.samples = samples, .cp = mesh.cp, .tp = mesh.tp, .sequence_parallel = layers.sequence_parallel};
  }
};

}  // namespace twofold
