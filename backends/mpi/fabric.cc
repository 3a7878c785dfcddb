#include "backends/mpi/fabric.h"

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include "backends/host/interrupt.h"
#include "backends/host/rank.h"
#include "backends/launch.h"
#include "backends/mpi/group.h"
#include "backends/mpi/session.h"
#include "backends/watch/hub.h"
#include "core/base/strings.h"

namespace twofold {
namespace mpi {
namespace {

// One run's rank in this process, on a thread of its own. If the run fails with the thread stuck, all of this is left behind
// for good: the library may still write to the rank's memory.
class Runner {
 public:
  Runner(Session& session, int world_size, const host::DeviceChoice& device, double timeout_s, MPI_Comm comm, const Limits& limits)
      : session_(session), process_(world_size, 1, timeout_s), rank_(process_, session.rank(), device) {
    auto identity = std::make_shared<host::GroupIdentity>();
    identity->id = 1;
    identity->label = "world";
    for (int r = 0; r < world_size; ++r) identity->ranks.push_back(r);
    endpoint_ = std::make_shared<Endpoint>(Endpoint{comm, "world", std::move(identity), session.rank(), limits});
  }

  host::RunState& run() { return process_.run; }
  void Abandon() { host::Abandon(*rank_.state()); }

  void Start(const RankFunction& fn) {
    thread_ = std::thread([this, fn] {
      std::string result;
      {
        MpiGroup world(endpoint_, rank_.state(), session_.watch(), rank_.stats());
        result = rank_.Run(fn, world, [&world] { world.Drain(); });
      }
      if (!process_.run.ending()) session_.watch().Finish(result);
      std::lock_guard lock(mutex_);
      result_ = std::move(result);
      done_ = true;
      changed_.notify_all();
    });
  }
  void Join() { thread_.join(); }
  // What the rank leaves behind, once the run has failed.
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
    return done_ ? result_ : std::string();
  }

 private:
  static constexpr std::chrono::milliseconds kLook{20};

  Session& session_;
  host::Process process_;
  host::Rank rank_;
  std::shared_ptr<Endpoint> endpoint_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::string result_;
};

class MpiFabric : public Fabric {
 public:
  MpiFabric(host::DeviceChoice device, double timeout_s, Limits limits)
      : device_(std::move(device)), timeout_s_(timeout_s), limits_(limits) {}
  std::string_view name() const override { return "mpi"; }
  bool predicted() const override { return false; }
  bool speaks() const override;
  int processes() const override { return LaunchedAs().launched ? LaunchedAs().size : 0; }
  absl::Status Accepts(int world_size) const override;
  RunResult Run(int world_size, const RankFunction& fn) override;

 private:
  const host::DeviceChoice device_;
  const double timeout_s_;
  const Limits limits_;
};

bool MpiFabric::speaks() const {
  const absl::StatusOr<Session*> session = Session::Get();
  return !session.ok() || (*session)->watch().speaks();
}

absl::Status MpiFabric::Accepts(int world_size) const {
  if (world_size < 1) return absl::InvalidArgumentError("fabric.mpi: at least one rank is needed");
  const Launch launch = LaunchedAs();
  if (launch.size == world_size) return absl::OkStatus();
  const std::string ask = StrCat("fabric.mpi: ", world_size, world_size == 1 ? " rank is" : " ranks are", " asked for, and ");
  if (!launch.launched) {
    return absl::InvalidArgumentError(
        StrCat(ask, "this process was started without a launcher; start it with `mpirun -n ", world_size,
               " twofold run ...`, `srun -n ", world_size, " ...` or `twofold launch --ranks=", world_size,
               " --fabric=mpi -- run ...`"));
  }
  return absl::InvalidArgumentError(StrCat(ask, launch.size, " processes were started; start ", world_size,
                                           ", or set parallel so that pp * dp * cp * tp is ", launch.size));
}

RunResult MpiFabric::Run(int world_size, const RankFunction& fn) {
  auto refuse = [&](absl::Status status) {
    return RunResult{std::move(status), std::vector<std::string>(static_cast<size_t>(world_size)), {}};
  };
  const absl::StatusOr<Session*> started = Session::Get();
  if (!started.ok()) return refuse(started.status());
  Session& session = **started;
  if (session.given_up()) {
    return refuse(absl::FailedPreconditionError("fabric.mpi: an earlier run of this process failed; MPI cannot go on after that"));
  }
  if (world_size > session.processes()) return refuse(Accepts(world_size));
  auto interrupt = std::make_unique<host::InterruptScope>(true);
  const bool takes_part = session.rank() < world_size;
  MPI_Comm comm = MPI_COMM_NULL;
  if (const int code = MPI_Comm_split(session.world(), takes_part ? 0 : MPI_UNDEFINED, session.rank(), &comm); code != MPI_SUCCESS) {
    return refuse(absl::InternalError(StrCat("fabric.mpi: MPI_Comm_split: ", ErrorText(code))));
  }
  std::unique_ptr<Runner> runner;
  if (takes_part) runner = std::make_unique<Runner>(session, world_size, device_, timeout_s_, comm, limits_);
  session.watch().Begin(world_size, timeout_s_, takes_part ? &runner->run() : nullptr, [r = runner.get()] {
    if (r != nullptr) r->Abandon();
  });
  if (takes_part) runner->Start(fn);
  const control::Verdict verdict = session.watch().AwaitVerdict();
  if (verdict.code() != 0) {
    session.GiveUp();
    (void)interrupt.release();
    std::signal(SIGTERM, SIG_IGN);  // launchers end the survivors of a lost rank, who have yet to write what they know
    if (takes_part) session.watch().HandIn(runner->Partial(watch::Hub::GraceOf(verdict)));
    (void)runner.release();
  } else if (takes_part) {
    runner->Join();
  }
  RunResult result = session.watch().Conclude();
  result.results.resize(static_cast<size_t>(world_size));
  result.notes.insert(result.notes.end(), device_.notes.begin(), device_.notes.end());
  return result;
}

}  // namespace
}  // namespace mpi

absl::StatusOr<std::unique_ptr<Fabric>> MakeMpiFabric(const spec::Spec& spec, mpi::Limits limits) {
  absl::StatusOr<host::DeviceChoice> device = host::ChooseDevice(spec);
  if (!device.ok()) return device.status();
  return std::make_unique<mpi::MpiFabric>(*std::move(device), spec.fabric().timeout_s(), limits);
}

}  // namespace twofold
