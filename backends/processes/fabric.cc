#include "backends/processes/fabric.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "backends/control/hub.h"
#include "backends/host/exit_scope.h"
#include "backends/host/interrupt.h"
#include "backends/launch/ending.h"
#include "backends/launch/launch.h"
#include "backends/processes/last_step_vote.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::processes {

void Session::GiveUp() {
  if (given_up_) return;
  given_up_ = true;
  host::LeaveWithoutCleanUp();
}

namespace {

// This process's device: the one GPU of its local rank.
host::DeviceChoice OfThisProcess(host::DeviceChoice device, const Place& place) {
  if (device.cuda) device.cuda->gpus = {device.cuda->Of(place.rank_here)};
  return device;
}

// One run's rank in this process, on its own thread. If the run fails while the thread is stuck, all of this is leaked:
// the library may still write to the rank's memory.
class Runner {
 public:
  // The process begins in generation `first`. Without a way to make a group it comes late, and joins as `comes` says.
  Runner(Session& session, control::Generation first, const host::DeviceChoice& device, double timeout_s,
         MakeGroup make_group, const ReformOptions& comes)
      : session_(session),
        first_(std::move(first)),
        process_(NumbersOf(first_), 1, timeout_s),
        rank_(process_, session.control().member(), OfThisProcess(device, session.place())),
        make_group_(std::move(make_group)),
        comes_(comes) {
    auto vote = std::make_shared<LastStepVote>(
        process_.world_size, [&session](control::Relayed message) { session.control().Relay(std::move(message)); });
    process_.last_step = vote->last_step();
    session.control().OnLastStep([vote](const control::Relayed& message) { vote->Hear(message); });
  }

  void MakeElastic(const Reconnect& reconnect, host::MembershipEvents events) {
    generations_.emplace(session_, process_, rank_, first_, reconnect, std::move(events));
  }

  host::RunState& run() { return process_.run; }
  void Abandon() { host::Abandon(*rank_.state()); }

  void Start(const RankFunction& fn) {
    thread_ = std::thread([this, fn] {
      std::string result;
      {
        std::unique_ptr<Group> own;
        std::unique_ptr<Group>& world = generations_ ? generations_->world : own;
        if (Connect(world)) {
          result = rank_.Run(
              fn, *world, [&world] { world->Drain(); },
              generations_ ? generations_->Membership() : RankContext::Parts::Membership());
        }
        world.reset();
      }
      TellEnd(result);
      std::lock_guard lock(mutex_);
      result_ = std::move(result);
      done_ = true;
      changed_.notify_all();
    });
  }
  void Join() {
    thread_.join();
    session_.control().OnLastStep(nullptr);
  }
  // The rank's partial result, once the run has failed.
  std::string Partial(std::chrono::milliseconds grace) {
    std::unique_lock lock(mutex_);
    for (auto waited = std::chrono::milliseconds(0); !done_ && waited < grace; waited += kLook) {
      changed_.wait_for(lock, kLook);
      if (done_) break;
      lock.unlock();
      std::string stuck = rank_.PartialIfStuck();
      lock.lock();
      if (!stuck.empty()) return stuck;
    }
    return done_ ? result_ : rank_.KeptPartial();
  }

 private:
  static constexpr std::chrono::milliseconds kLook{20};

  void TellEnd(const std::string& result) {
    const host::RunState& run = rank_.state()->run;
    if (!run.ending()) return session_.control().Finish(result);
    const std::optional<host::RunState::Failure> failure = run.failure();
    if (!generations_ || !failure || failure->rank != rank_.state()->rank) return;
    if (failure->kind == RankFailure::Kind::kRunOver) return session_.control().EndRun(failure->message);
    (void)session_.control().Depart(result);  // it has failed alone; the others may go on
  }

  // Makes the rank's group of all members. If a process that comes late cannot, its run knows why.
  bool Connect(std::unique_ptr<Group>& world) {
    if (make_group_) {
      world = make_group_(WorldOf(first_), rank_.state(), rank_.stats());
      return true;
    }
    try {
      generations_->Come(comes_);
    } catch (const RankFailure& failure) {
      const std::shared_ptr<host::RankState> state = rank_.state();
      state->run.Explain(state->rank, failure.kind(), failure.what());
    }
    return world != nullptr;
  }

  Session& session_;
  const control::Generation first_;
  host::Process process_;
  host::Rank rank_;
  const MakeGroup make_group_;
  const ReformOptions comes_;
  std::optional<Generations> generations_;  // of an elastic run
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::string result_;
};

class ProcessesFabric : public Fabric {
 public:
  ProcessesFabric(Library library, host::DeviceChoice device, double timeout_s, const spec::Elastic* elastic)
      : library_(std::move(library)),
        device_(std::move(device)),
        timeout_s_(timeout_s),
        elastic_(elastic != nullptr ? std::optional(*elastic) : std::nullopt) {}
  std::string_view name() const override { return library_.fabric; }
  bool predicted() const override { return false; }
  bool speaks() const override;
  int processes() const override { return Started().launched ? Started().size : 0; }
  absl::Status Accepts(int world_size) const override;
  RunResult Run(int world_size, const RankFunction& fn) override;

 private:
  // How this process was started, if by a launcher that the library understands; otherwise it is alone.
  Launch Started() const {
    const Launch launch = LaunchedAs();
    return library_.by_mpi_only && !launch.by_mpi ? Launch{.error = launch.error} : launch;
  }

  // How this process takes part from its first generation on.
  struct Beginning {
    MakeGroup world;  // null: it comes late
    control::Generation generation;
  };
  absl::StatusOr<Beginning> FirstBeginning(Session& session, int world_size) const;
  absl::StatusOr<Beginning> LateBeginning(Session& session) const;

  const Library library_;
  const host::DeviceChoice device_;
  const double timeout_s_;
  const std::optional<spec::Elastic> elastic_;
};

bool ProcessesFabric::speaks() const {
  const absl::StatusOr<Session*> session = library_.session();
  return session.ok() ? (*session)->control().speaks() : !Started().newcomer;
}

absl::Status ProcessesFabric::Accepts(int world_size) const {
  const std::string fabric = StrCat("fabric.", library_.fabric);
  if (world_size < 1) return InvalidArgument(fabric + ": at least one rank is needed");
  const Launch launch = Started();
  if (!launch.error.empty()) return InvalidArgument(fabric, ": ", launch.error);
  const std::string ask =
      StrCat(fabric, ": ", world_size, world_size == 1 ? " rank is" : " ranks are", " needed, but ");
  if (const Launch other = LaunchedAs(); other.launched && other.size > 1 && !launch.launched) {
    return InvalidArgument(
        ask, "what started this process (", other.launcher, ") does not tell MPI so; start it with `mpirun -n ",
        world_size, " twofold ...` or `srun --mpi=pmix -n ", world_size,
        " twofold ...` (`srun --mpi=list` says whether Slurm has pmix), or use --fabric=gloo, which needs no MPI");
  }
  if (launch.size == world_size || launch.newcomer) return absl::OkStatus();
  if (!launch.launched) {
    return InvalidArgument(ask, "this process was started without ",
                           library_.by_mpi_only ? "an MPI launcher" : "a launcher", "; start it with `mpirun -n ",
                           world_size, " twofold ...`, `srun ", library_.by_mpi_only ? "--mpi=pmix " : "", "-n ",
                           world_size, " twofold ...` or `twofold launch --ranks=", world_size,
                           " --fabric=", library_.fabric, " -- ...`");
  }
  return InvalidArgument(ask, launch.size, " processes were started; start ", world_size, ", or use ",
                         Counted(launch.size, "rank"), " (a spec uses pp * dp * cp * tp ranks)");
}

absl::StatusOr<ProcessesFabric::Beginning> ProcessesFabric::FirstBeginning(Session& session, int world_size) const {
  absl::StatusOr<MakeGroup> world = library_.world(session, world_size);
  if (!world.ok()) return world.status();
  Beginning begins = {.world = *std::move(world), .generation = {}};
  for (int r = 0; r < world_size; ++r) begins.generation.members.push_back(r);
  return begins;
}

absl::StatusOr<ProcessesFabric::Beginning> ProcessesFabric::LateBeginning(Session& session) const {
  absl::StatusOr<control::Generation> first =
      session.control().Reform(1, session.control().options().timeout_s);  // waits to be let in
  if (!first.ok()) return first.status();
  return Beginning{.world = nullptr, .generation = *std::move(first)};
}

RunResult ProcessesFabric::Run(int world_size, const RankFunction& fn) {
  auto refuse = [&](absl::Status status) { return RunResult{std::move(status), RankResults::Empty(world_size), {}}; };
  const absl::StatusOr<Session*> started = library_.session();
  if (!started.ok()) return refuse(started.status());
  Session& session = **started;
  if (session.given_up()) {
    return refuse(FailedPrecondition("fabric.", library_.fabric, ": an earlier run of this process failed; ",
                                     library_.name, " cannot go on after that"));
  }
  const bool comes_late = session.control().options().newcomer, elastic = elastic_ && library_.reconnect;
  if (comes_late && !elastic)
    return refuse(FailedPrecondition("fabric.", library_.fabric, ": only a run with train.elastic takes in new ranks"));
  if (!comes_late && world_size > session.processes()) return refuse(Accepts(world_size));
  auto interrupt = std::make_unique<host::InterruptScope>();
  const absl::StatusOr<Beginning> begins = comes_late ? LateBeginning(session) : FirstBeginning(session, world_size);
  if (!begins.ok()) return refuse(begins.status());
  const std::vector<int>& members = begins->generation.members;
  const bool takes_part = std::find(members.begin(), members.end(), session.control().member()) != members.end();
  std::unique_ptr<Runner> runner;
  if (takes_part) {
    runner = std::make_unique<Runner>(session, begins->generation, device_, timeout_s_, begins->world,
                                      ReformOptions{.timeout_s = elastic ? elastic_->reform_timeout_s() : 0});
  }
  if (takes_part && elastic) runner->MakeElastic(library_.reconnect, host::MembershipEvents(*elastic_, world_size));
  const auto on_failure = [&session, r = runner.get()] {
    if (r != nullptr) r->Abandon();
    session.CutOff();
  };
  control::Client::OnBroken on_broken;
  if (elastic) on_broken = [&session](const control::Broken&) { session.Disconnect(); };
  session.control().Begin(static_cast<int>(members.size()), timeout_s_, takes_part ? &runner->run() : nullptr,
                          on_failure, on_broken);
  if (takes_part) runner->Start(fn);
  const control::Verdict verdict = session.control().AwaitVerdict();
  LeaveEnding(session.rank(), absl::Status(static_cast<absl::StatusCode>(verdict.code()), verdict.message()));
  if (verdict.code() != 0) {
    session.GiveUp();
    (void)interrupt.release();
    // Launchers send SIGTERM to the survivors of a lost rank, which still have to write their results.
    std::signal(SIGTERM, SIG_IGN);
    if (takes_part) session.control().HandIn(runner->Partial(control::Hub::GraceOf(verdict)));
    (void)runner.release();
  } else if (takes_part) {
    runner->Join();
  }
  RunResult result = session.control().Conclude();
  if (!elastic) result.results.resize(static_cast<size_t>(world_size));  // else there is one for each member
  result.notes.insert(result.notes.end(), device_.notes.begin(), device_.notes.end());
  for (std::string& note : session.Notes()) result.notes.push_back(std::move(note));
  return result;
}

}  // namespace

std::unique_ptr<Fabric> MakeFabric(Library library, host::DeviceChoice device, double timeout_s,
                                   const spec::Elastic* elastic) {
  return std::make_unique<ProcessesFabric>(std::move(library), std::move(device), timeout_s, elastic);
}

}  // namespace twofold::processes
