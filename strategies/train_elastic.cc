#include "strategies/train_elastic.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "core/base/errors.h"
#include "core/base/strings.h"
#include "core/proto/report.pb.h"
#include "strategies/checkpoint/agree.h"
#include "strategies/elastic/last_checkpoint.h"
#include "strategies/elastic/left_out.h"
#include "strategies/elastic/messages.h"
#include "strategies/elastic/redistribute.h"
#include "strategies/rank_trainer.h"
#include "strategies/recorder.h"
#include "strategies/training_loop.h"

namespace twofold {
namespace {

using elastic::Offer;

constexpr char kSamples[] = "elastic.samples";  // in checkpoints: samples of all steps so far

// The state of a training between two steps, as far as this rank holds it.
struct State {
  std::vector<checkpoint::LocalPiece> pieces;
  elastic::LeftOut left_out;  // by gradient compression
  Offer offer;                // without pieces
};

bool IsLoss(const RankFailure& failure) {
  return failure.kind() == RankFailure::Kind::kPeerLost || failure.kind() == RankFailure::Kind::kTimedOut;
}

template <class T>
void Append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

class ElasticTraining {
 public:
  ElasticTraining(RankContext& ctx, const TrainingOptions& options, const Samples& samples,
                  const std::function<void(const StepProgress&)>& progress, const checkpoint::Opened* read)
      : ctx_(ctx), initial_(options), elastic_(*options.elastic), samples_(samples), progress_(progress), read_(read) {}
  std::string Run();

 private:
  // ---- One generation ----
  void ChooseReplicas();
  void Begin();
  void Recover();
  bool Train();
  bool StandBy();
  void NextGeneration(const std::string& cause);

  // ---- Its parts ----
  Offer MyOffer();
  Offer Settle(const std::vector<Offer>& offers);
  void MakeTrainer(bool draws);
  void FillFromPeers(const std::vector<Offer>& offers, const Offer& latest);
  void FillFromCheckpoint(const std::string& why_not_peers, const std::vector<Offer>& offers);
  void BeginAnew();
  std::string TryToLoad(const std::optional<checkpoint::Opened>& found);
  void LookAtFolder();
  void TellStart();
  void AddGeneration(double reform_s, double recover_s);
  int64_t SamplesBefore(int64_t step) const { return samples_base_ + (step - start_) * options_->global_batch; }
  double Now() { return ctx_.clock().Now().value(); }
  bool trains() const { return active_; }
  int64_t ranks_of_a_replica() const { return initial_.mesh.pp * initial_.mesh.cp * initial_.mesh.tp; }

  RankContext& ctx_;
  const TrainingOptions& initial_;
  const ElasticOptions& elastic_;
  const Samples& samples_;
  const std::function<void(const StepProgress&)>& progress_;
  const checkpoint::Opened* const read_;
  const TrainingLoop::Next no_next_;

  std::shared_ptr<const TrainingOptions> options_;  // of this generation
  std::unique_ptr<ProcessGroup> world_;             // the members that train; null: all of them
  bool active_ = true;                              // this one does
  std::optional<Recorder> recorder_;
  std::optional<RankTrainer> trainer_;
  bool drawn_ = false;          // trainer_ began with initial values
  bool complete_ = false;       // trainer_ holds the state
  std::optional<State> held_;   // what this rank holds until all have taken what they need
  int64_t began_ = 0;           // steps done when the run began
  int64_t start_ = 0;           // steps done when this generation began to train
  int64_t samples_base_ = 0;    // samples of these steps
  std::string from_ = "start";  // where its state is from
  std::string cause_;           // why the one before ended
  double asked_at_ = 0, formed_at_ = 0, detect_s_ = 0;
  int64_t lost_steps_ = 0, saved_steps_ = 0;
  int64_t sequence_before_ = -1;  // of the last checkpoint in the folder when the run began; -1: not known here
  Bytes load_bytes_;              // of a checkpoint, for this generation
  double load_s_ = 0;
};

// The most replicas that the members are enough for and the options allow.
void ElasticTraining::ChooseReplicas() {
  const int64_t members = ctx_.everyone().size(), unit = ranks_of_a_replica();
  options_ = nullptr;
  int64_t dp = std::min(elastic_.max_dp, members / unit);
  for (; dp >= elastic_.min_dp && options_ == nullptr; --dp) options_ = elastic_.with(dp);
  if (options_ == nullptr) {
    throw RunOver(ctx_.member(), StrCat("train.elastic: ", members, " ranks are left; no number of replicas from ",
                                        elastic_.min_dp, " to ", std::min(elastic_.max_dp, members / unit),
                                        " can train with them (`twofold run --check` with that parallel.dp says why)"));
  }
  const int64_t active = options_->mesh.dp * unit;
  world_.reset();
  active_ = ctx_.everyone().rank() < active;
  if (active == members) return;
  world_ = ctx_.everyone().Split(active_ ? 0 : -1, ctx_.everyone().rank(), "world");
  if (active_) ctx_.UseWorld(world_.get());
}

void ElasticTraining::MakeTrainer(bool draws) {
  trainer_.emplace(ctx_, *options_, samples_, *recorder_, *recorder_, draws);
  drawn_ = draws;
  trainer_->CommitWith([this] { ctx_.everyone().Barrier().Wait(); });
  if (!elastic_.keeps_global_batch) trainer_->CountSamples([this](int64_t step) { return SamplesBefore(step); });
  recorder_->SetParameters(trainer_->parameters());
}

// Before anything is saved, which all ranks have to pass TellStart for.
void ElasticTraining::LookAtFolder() {
  if (ctx_.everyone().rank() != 0 || !initial_.saving || sequence_before_ >= 0) return;
  const std::vector<checkpoint::Found> there = checkpoint::List(initial_.saving->options.folder);
  sequence_before_ = there.empty() ? 0 : there[0].sequence;
}

// Generation 0 starts anew, or from the checkpoint that the run resumes from.
void ElasticTraining::Begin() {
  ChooseReplicas();
  std::optional<checkpoint::Opened> resumed;
  if (trains()) {
    resumed = OpenResumed(ctx_, *options_, read_);
    if (resumed) start_ = began_ = resumed->manifest.metadata.step;
    recorder_.emplace(ctx_, options_->recorder, start_);
    MakeTrainer(/*draws=*/true);
    if (resumed) trainer_->Resume(*resumed);
    samples_base_ = start_ * options_->global_batch;
    if (resumed && resumed->manifest.metadata.scalars.contains(kSamples))
      samples_base_ = static_cast<int64_t>(resumed->manifest.metadata.scalars.at(kSamples));
    trainer_->set_steps_done(start_);
    complete_ = true;
  }
  TellStart();
}

// All members, also those that stand by, know from where the training goes on.
void ElasticTraining::TellStart() {
  LookAtFolder();
  const elastic::Start first =
      elastic::ExchangeAll(ctx_, elastic::Start{start_, samples_base_, from_, sequence_before_})[0];
  start_ = first.steps, samples_base_ = first.samples, from_ = first.from, sequence_before_ = first.sequence_before;
  if (!recorder_) recorder_.emplace(ctx_, options_->recorder, start_);
}

Offer ElasticTraining::MyOffer() {
  Offer offer;
  if (complete_) {
    offer = {.trained = true,
             .prepared = trainer_->prepared(),
             .began = began_,
             .steps = trainer_->steps_done(),
             .updates = trainer_->updates(),
             .samples = SamplesBefore(trainer_->steps_done()),
             .scalars = trainer_->Scalars()};
  } else if (held_) {
    offer = held_->offer;
  }
  offer.saved_steps = saved_steps_;
  return offer;
}

// Brings this rank's state to the step that was committed last, and takes it out of the trainer.
Offer ElasticTraining::Settle(const std::vector<Offer>& offers) {
  Offer latest;
  for (const Offer& offer : offers) {
    if (offer.trained && (!latest.trained || offer.steps > latest.steps)) latest = offer;
  }
  if (!complete_) return latest;
  const bool behind = trainer_->steps_done() < latest.steps;
  if (behind) {
    TWOFOLD_CHECK(trainer_->prepared() && trainer_->steps_done() + 1 == latest.steps,
                  "a rank that others have overtaken had all that its update needs");
    trainer_->FinishUpdate();
  } else {
    trainer_->Abandon();
  }
  recorder_->EndInterrupted(behind || recorder_->steps_done() < latest.steps, trainer_->last_loss());
  State state{
      .pieces = trainer_->Held(), .left_out = elastic::LeftOutOf(trainer_->ReducerStates()), .offer = MyOffer()};
  if (held_) {
    Append(state.pieces, held_->pieces);
    Append(state.left_out.shared, held_->left_out.shared);
  }
  held_ = std::move(state);
  complete_ = false;
  return latest;
}

// From a checkpoint if nobody holds some of what is needed.
void ElasticTraining::FillFromPeers(const std::vector<Offer>& offers, const Offer& latest) {
  elastic::Needs needs;
  std::vector<checkpoint::LocalPiece> own;
  if (trains()) own = trainer_->Own();
  needs.pieces = elastic::Describe(own);
  elastic::LeftOut left_out;
  if (trains()) left_out = elastic::LeftOutOf(trainer_->ReducerStates());
  needs.left_out = elastic::Describe(left_out.shared);
  std::vector<elastic::Pieces> held, needed, held_left_out, needed_left_out;
  for (const Offer& offer : offers) {  // one that is a step behind has caught up since
    const bool has = offer.trained && offer.steps + (offer.prepared ? 1 : 0) >= latest.steps;
    held.push_back(has ? offer.pieces : elastic::Pieces());
    held_left_out.push_back(has ? offer.left_out : elastic::Pieces());
  }
  for (elastic::Needs& n : elastic::ExchangeAll(ctx_, needs)) {
    needed.push_back(std::move(n.pieces));
    needed_left_out.push_back(std::move(n.left_out));
  }
  const absl::StatusOr<std::vector<elastic::Move>> moves = elastic::PlanMoves(held, needed);
  if (!moves.ok()) {
    const std::string why(moves.status().message());
    // Before the first step, the state can be made anew. A rank may be lost while some of the others have theirs.
    if (!initial_.saving && latest.steps > latest.began) {
      throw RunOver(ctx_.member(), StrCat("train.elastic: ", why,
                                          ", and there is no checkpoint (train.checkpoint); "
                                          "shard_copies: 1 or HYBRID_SHARD keep copies"));
    }
    FillFromCheckpoint(why, offers);
    return;
  }
  nn::Context nn{.device = ctx_.device(), .stream = ctx_.device().compute(), .seed = initial_.seed};
  const State nothing;
  const State& had = held_ ? *held_ : nothing;
  elastic::MakeMoves(nn, ctx_.everyone(), *moves, had.pieces, own);
  elastic::CarryOver(nn, ctx_.everyone(), had.left_out, held_left_out, left_out, needed_left_out);
  start_ = latest.steps, samples_base_ = latest.samples, from_ = "peers";
  if (!trains()) return;
  trainer_->Restored(latest.updates);
  trainer_->SetScalars(latest.scalars);
}

// Loads the checkpoint that rank 0 has found. Returns why this rank cannot read it; empty: it can, or another cannot.
std::string ElasticTraining::TryToLoad(const std::optional<checkpoint::Opened>& found) {
  const checkpoint::Opened opened = checkpoint::Agree(ctx_, found ? found->path : initial_.saving->options.folder,
                                                      options_->run, found ? &*found : nullptr);
  start_ = opened.manifest.metadata.step;
  const auto samples = opened.manifest.metadata.scalars.find(kSamples);
  samples_base_ = samples != opened.manifest.metadata.scalars.end() ? static_cast<int64_t>(samples->second)
                                                                    : start_ * options_->global_batch;
  const absl::StatusOr<Bytes> bytes = trainer_->TryResume(opened);
  load_bytes_ = bytes.value_or(Bytes(0));
  return bytes.ok() || absl::IsCancelled(bytes.status()) ? "" : std::string(bytes.status().message());
}

// The last checkpoint that this run has saved. Without files, the one that some member knows of.
void ElasticTraining::FillFromCheckpoint(const std::string& why_not_peers, const std::vector<Offer>& offers) {
  held_.reset();  // what was done since is given up
  if (trains() && ctx_.rank() == 0 && !why_not_peers.empty())
    ctx_.AddNote(StrCat("generation ", ctx_.generation().number, " did not go on from peers: ", why_not_peers));
  const double begun = Now();
  const bool files = initial_.saving && ctx_.device().holds() != Holds::kNothing;
  int64_t saved = 0;
  for (const Offer& offer : offers) saved = std::max(saved, offer.saved_steps);
  start_ = saved, samples_base_ = 0;
  if (files) {
    LookAtFolder();
    saved = elastic::LoadLast(ctx_, initial_.saving->options.folder, sequence_before_,
                              [this](const auto& found) { return trains() ? TryToLoad(found) : std::string(); });
  }
  saved_steps_ = start_ = saved;
  from_ = saved > 0 ? "checkpoint" : "start";
  if (!trains()) return;
  if (saved > 0 && !files) {
    load_bytes_ = trainer_->ResumeWithoutFile(start_);
    samples_base_ = start_ * options_->global_batch;
  } else if (saved == 0) {
    BeginAnew();
  }
  load_s_ = load_bytes_.value() > 0 ? Now() - begun : 0;
}

// As the run began: it was lost before it had saved a checkpoint.
void ElasticTraining::BeginAnew() {
  if (!drawn_) trainer_.reset(), MakeTrainer(/*draws=*/true);
  const std::optional<checkpoint::Opened> opened = OpenResumed(ctx_, *options_, read_);
  if (opened) start_ = opened->manifest.metadata.step;
  samples_base_ = start_ * options_->global_batch;
  if (!opened) return trainer_->Restored(start_);  // as in a new training
  load_bytes_ = trainer_->Resume(*opened);
  if (opened->manifest.metadata.scalars.contains(kSamples))
    samples_base_ = static_cast<int64_t>(opened->manifest.metadata.scalars.at(kSamples));
}

// The survivors of a generation, and newcomers, go on where it ended.
void ElasticTraining::Recover() {
  Offer mine = MyOffer();
  if (complete_) {
    mine.pieces = elastic::Describe(trainer_->Held());
    mine.left_out = elastic::Describe(elastic::LeftOutOf(trainer_->ReducerStates()).shared);
  }
  if (held_) {  // also of a recovery that was interrupted
    Append(mine.pieces, elastic::Describe(held_->pieces));
    Append(mine.left_out, elastic::Describe(held_->left_out.shared));
  }
  const std::vector<Offer> offers = elastic::ExchangeAll(ctx_, mine);
  const Offer latest = Settle(offers);
  if (latest.trained) began_ = latest.began;
  trainer_.reset();
  ChooseReplicas();
  if (!recorder_) recorder_.emplace(ctx_, options_->recorder, latest.steps);
  if (trains()) MakeTrainer(/*draws=*/!latest.trained);
  from_ = "start";
  load_bytes_ = Bytes(0), load_s_ = 0;
  if (latest.trained && elastic_.from_peers) {
    FillFromPeers(offers, latest);
  } else {
    FillFromCheckpoint("", offers);
  }
  ctx_.device().compute().Synchronize();  // it has what it needs: should this generation break, it may offer that
  TellStart();
  lost_steps_ = std::max<int64_t>(0, latest.steps - start_);
  recorder_->RollBack(start_);
  if (trains()) trainer_->set_steps_done(start_);
  complete_ = trains();
  if (!elastic_.from_peers) held_.reset();
  ctx_.everyone().Barrier().Wait();  // all have what they need: nobody will ask for what this rank held
  held_.reset();
}

bool ElasticTraining::StandBy() {
  for (int64_t step = start_; step < initial_.steps; ++step) {
    ctx_.BeginStep(step);
    ctx_.everyone().Barrier().Wait();  // as those that train commit the step
    if (step + 1 < initial_.steps && ctx_.EndsAfter(step + 1)) return false;
  }
  return true;
}

bool ElasticTraining::Train() {
  if (!trains()) return StandBy();
  TrainingLoop loop(ctx_, *options_, *recorder_, progress_, no_next_);
  loop.stops_after = [this](int64_t done) { return ctx_.EndsAfter(done); };
  loop.scalars = [this](int64_t done) {
    return std::map<std::string, double>{{kSamples, static_cast<double>(SamplesBefore(done))}};
  };
  const absl::Cleanup keep = [&] { saved_steps_ = std::max(saved_steps_, loop.saved_steps()); };
  return loop.Run(*trainer_, start_);
}

void ElasticTraining::AddGeneration(double reform_s, double recover_s) {
  report::Generation g;
  g.set_number(ctx_.generation().number);
  for (const int member : ctx_.generation().members) g.add_members(member);
  g.set_dp(options_->mesh.dp), g.set_first_step(start_), g.set_began_seconds(Now());
  g.set_detect_seconds(detect_s_), g.set_reform_seconds(reform_s), g.set_recover_seconds(recover_s);
  g.set_lost_steps(lost_steps_), g.set_from(from_), g.set_cause(cause_);
  g.set_load_bytes(load_bytes_.value()), g.set_load_seconds(load_s_);
  recorder_->AddGeneration(g);
}

void ElasticTraining::NextGeneration(const std::string& cause) {
  detect_s_ = recorder_ ? recorder_->Interrupt().value() : 0;
  cause_ = cause.empty() ? "members came" : cause;
  asked_at_ = Now();
  ctx_.Reform({.min_members = static_cast<int>(elastic_.min_dp * ranks_of_a_replica()),
               .timeout_s = elastic_.reform_timeout_s});
  formed_at_ = Now();
}

std::string ElasticTraining::Run() {
  ctx_.SetPartialResultSource([this] { return recorder_ ? recorder_->PartialRecord() : std::string(); },
                              [this] { return recorder_ ? recorder_->RecordWithoutTimeLine() : std::string(); });
  absl::Cleanup keep = [this] {
    ctx_.SetPartialResultSource(nullptr);
    if (recorder_) ctx_.SetPartialResult(recorder_->PartialRecord());
  };
  for (bool complete = false; !complete;) {
    std::string cause;
    try {  // what follows a loss communicates, and so must not be within the handler
      if (ctx_.generation().number == 0) {
        Begin();
        if (trains()) ctx_.world().Barrier().Wait();
        recorder_->IsSetUp();
        AddGeneration(0, 0);
      } else {
        Recover();
        AddGeneration(asked_at_ > 0 ? formed_at_ - asked_at_ : 0, asked_at_ > 0 ? Now() - formed_at_ : 0);
      }
      complete = Train();
    } catch (const RankFailure& failure) {
      if (!IsLoss(failure)) throw;
      cause = failure.what();
    }
    if (complete) break;
    const bool all_done = complete_ && trainer_->steps_done() == initial_.steps;
    if (all_done && !initial_.saving) {  // what is left is nobody's loss
      recorder_->Interrupt();
      recorder_->EndInterrupted(recorder_->steps_done() < initial_.steps, trainer_->last_loss());
      break;
    }
    NextGeneration(cause);
  }
  recorder_->Complete();
  std::move(keep).Cancel();
  ctx_.SetPartialResultSource(nullptr);
  return recorder_->Record();
}

}  // namespace

std::string TrainElastic(RankContext& ctx, const TrainingOptions& options, const Samples& samples,
                         const std::function<void(const StepProgress&)>& progress, const checkpoint::Opened* read) {
  return ElasticTraining(ctx, options, samples, progress, read).Run();
}

}  // namespace twofold
