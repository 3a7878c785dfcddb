#include "experiments/program/doctor/run.h"

#include <sched.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/format.h"
#include "core/base/machine.h"
#include "core/base/strings.h"
#include "sim/cost/read_profile.h"

namespace twofold::doctor {
namespace {

constexpr char kCalibrate[] = "twofold calibrate";

int64_t CoresHere() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
}

}  // namespace

Finding AboutProfile(const absl::StatusOr<profile::Profile>& profile, const std::string& path,
                     const std::string& processor, int64_t cores, absl::Time now) {
  Finding found{.name = "profile"};
  if (absl::IsNotFound(profile.status())) {
    found.kind = Kind::kNote;
    found.text = StrCat("there is no ", path, ", so step times on this-machine cannot be predicted");
    found.remedy = StrCat(kCalibrate, " measures kernels and links of this machine");
    return found;
  }
  if (!profile.ok())
    return {Kind::kFault, found.name, std::string(profile.status().message()), StrCat("measure it anew: ", kCalibrate)};
  std::string age = "at an unknown time";
  absl::Time created;
  bool old = false;
  if (absl::ParseTime(absl::RFC3339_full, profile->created(), &created, nullptr)) {
    const auto days = static_cast<int64_t>(absl::ToDoubleHours(now - created) / 24);
    age = days < 1 ? "today" : StrCat(Counted(days, "day"), " ago");
    old = days > 180;
  }
  found.text = StrCat(path, ": ", Counted(profile->kernels_size(), "kernel"), ", measured ", age);
  if (profile->has_processor() && profile->processor() != processor) {
    found.kind = Kind::kFault;
    StrAppend(&found.text, " on another processor, ", profile->processor());
    found.remedy = StrCat("predictions for this-machine are those of that one; measure this one: ", kCalibrate);
  } else if (profile->has_cores() && profile->cores() != cores) {
    found.kind = Kind::kNote;
    StrAppend(&found.text, " on ", Counted(profile->cores(), "core"), "; there are ", cores, " now");
    found.remedy = StrCat("measure it anew: ", kCalibrate);
  } else if (old) {
    found.kind = Kind::kNote;
    found.remedy = StrCat("libraries and clocks may have changed since; measure it anew: ", kCalibrate);
  }
  return found;
}

Finding AboutLauncher(const Variables& variables) {
  Finding found{.name = "launcher"};
  const Launch launch = LaunchFrom(variables);
  const char* const job = variables("SLURM_JOB_ID");
  if (!launch.error.empty()) {
    found.kind = Kind::kFault;
    found.text = launch.error;
    found.remedy = "correct or unset these variables: fabrics whose ranks are processes refuse to run with them";
  } else if (launch.launched) {
    found.text = StrCat("this process is rank ", launch.rank, " of ", launch.size, ", started by ", launch.launcher);
    if (!launch.master_address.empty())
      StrAppend(&found.text, "; ranks meet at ", launch.master_address, " port ", launch.master_port);
  } else if (job != nullptr) {
    found.text = StrCat("in Slurm's job ", job, ", outside of its steps; srun twofold run ... starts ranks");
  } else {
    found.text = "none: the environment has no variables of mpirun, torchrun or Slurm";
  }
  return found;
}

Findings AboutRuns() {
  const auto about = [](const char* path) {
    return AboutProfile(ReadProfile(path), path, ProcessorName(), CoresHere(), absl::Now());
  };
  Findings found = {about(kThisMachineProfile)};
  std::error_code none;
  if (std::filesystem::exists(kThisMachineCudaProfile, none)) {
    found.push_back(about(kThisMachineCudaProfile));
    found.back().name = "profile of GPU";
  }
  found.push_back(AboutLauncher([](const char* name) { return std::getenv(name); }));
  return found;
}

}  // namespace twofold::doctor
