// What `twofold doctor` says of what it finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "experiments/program/doctor/finding.h"
#include "experiments/program/doctor/machine.h"
#include "experiments/program/doctor/parts.h"
#include "experiments/program/doctor/run.h"

namespace twofold {
namespace doctor_test {

using doctor::Finding;
using doctor::Kind;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Doctor, JudgesTheMachine) {
  EXPECT_EQ(doctor::AboutCores("a processor", 8, 1.0).kind, Kind::kOk);
  const Finding busy = doctor::AboutCores("a processor", 2, 1.9);
  EXPECT_EQ(busy.kind, Kind::kNote);
  EXPECT_EQ(busy.text, "a processor, 2 cores, load 1.9");
  EXPECT_EQ(doctor::AboutMemory(int64_t{1} << 34, int64_t{1} << 33).kind, Kind::kOk);
  EXPECT_EQ(doctor::AboutMemory(int64_t{1} << 34, int64_t{1} << 30).kind, Kind::kNote);
  EXPECT_EQ(doctor::AboutOpenFiles(1024, 4096).text, "limit 1,024, raised when needed to 4,096");
  EXPECT_EQ(doctor::AboutOpenFiles(256, 256).kind, Kind::kFault);
  EXPECT_EQ(doctor::AboutLockedMemory(1 << 16, false).kind, Kind::kOk);
  EXPECT_EQ(doctor::AboutLockedMemory(1 << 16, true).kind, Kind::kNote);
  EXPECT_EQ(doctor::AboutSharedMemory(true, 1 << 30).kind, Kind::kOk);
  EXPECT_THAT(doctor::AboutSharedMemory(true, 1 << 26).remedy, HasSubstr("--shm-size"));
  EXPECT_EQ(doctor::AboutSharedMemory(false, -1).kind, Kind::kNote);
  EXPECT_EQ(doctor::AboutClock(2e-8, "tsc").text, "monotonic, steps of 20.0 ns, by tsc");
  EXPECT_EQ(doctor::AboutClock(4e-3, "jiffies").kind, Kind::kNote);
}

TEST(Doctor, JudgesTheProfile) {
  const absl::Time now = absl::FromUnixSeconds(1800000000);
  const auto about = [&](const absl::StatusOr<profile::Profile>& profile) {
    return doctor::AboutProfile(profile, "p.textproto", "this one", 4, now);
  };
  const auto made = [&](const char* processor, int64_t cores, int days) {
    profile::Profile profile;
    profile.add_kernels();
    profile.set_processor(processor), profile.set_cores(cores);
    profile.set_created(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now - absl::Hours(24 * days), absl::UTCTimeZone()));
    return profile;
  };
  EXPECT_EQ(about(made("this one", 4, 3)).text, "p.textproto: 1 kernel, measured 3 days ago");
  EXPECT_EQ(about(made("this one", 4, 3)).kind, Kind::kOk);
  EXPECT_EQ(about(made("this one", 4, 400)).kind, Kind::kNote);
  EXPECT_THAT(about(made("this one", 8, 0)).text, HasSubstr("measured today on 8 cores; there are 4 now"));
  EXPECT_EQ(about(made("another", 4, 3)).kind, Kind::kFault);
  EXPECT_THAT(about(made("another", 4, 3)).text, HasSubstr("on another processor, another"));
  EXPECT_THAT(about(absl::NotFoundError("")).remedy, StartsWith("twofold calibrate"));
  EXPECT_EQ(about(absl::InvalidArgumentError("line 3")).kind, Kind::kFault);
}

Variables Set(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(Doctor, TriesMpiButNotAmongALaunchersProcesses) {
  EXPECT_THAT(doctor::AboutMpi({"env"}, Set({})).text, StartsWith("starts a process in "));
  const Finding fails = doctor::AboutMpi({"sh", "-c", "exit 3"}, Set({}));
  EXPECT_EQ(fails.kind, Kind::kFault);
  EXPECT_EQ(fails.text, "`sh -c exit 3 true`: exit status 3");
  const Finding among = doctor::AboutMpi({"sh", "-c", "exit 3"}, Set({{"SLURM_PROCID", "1"},
                                                                      {"SLURM_NTASKS", "2"},
                                                                      {"SLURM_LOCALID", "0"},
                                                                      {"SLURM_NODEID", "1"},
                                                                      {"SLURM_JOB_ID", "77"},
                                                                      {"SLURM_STEP_ID", "0"},
                                                                      {"SLURM_STEP_NUM_TASKS", "2"},
                                                                      {"SLURM_STEP_NODELIST", "node1,node2"}}));
  EXPECT_EQ(among.kind, Kind::kNote);
  EXPECT_EQ(among.text, "not tried, because Slurm's srun started this process");
}

TEST(Doctor, JudgesTheEnvironment) {
  const auto about = [](const std::map<std::string, std::string>& variables) {
    return doctor::AboutLauncher(Set(variables));
  };
  EXPECT_THAT(about({}).text, StartsWith("none"));
  EXPECT_THAT(about({{"SLURM_JOB_ID", "77"}}).text, StartsWith("in Slurm's job 77, outside of its steps"));
  const Finding fine = about({{"RANK", "1"},
                              {"WORLD_SIZE", "2"},
                              {"LOCAL_RANK", "1"},
                              {"LOCAL_WORLD_SIZE", "2"},
                              {"MASTER_ADDR", "here"},
                              {"MASTER_PORT", "2000"}});
  EXPECT_EQ(fine.kind, Kind::kOk) << fine.text;
  EXPECT_THAT(fine.text, HasSubstr("rank 1 of 2"));
  EXPECT_THAT(fine.text, HasSubstr("here port 2000"));
  EXPECT_EQ(about({{"RANK", "5"}, {"WORLD_SIZE", "2"}}).kind, Kind::kFault);
}

TEST(Doctor, ReadsVersionsFromTheNamesOfFiles) {
  EXPECT_EQ(doctor::LibraryVersions({"/usr/lib/libsimgrid.so.3.32", "/usr/lib/openblas/libopenblasp-r0.3.21.so",
                                     "/usr/lib/libmpi_cxx.so.40.30.1", "/usr/lib/libmpi.so.40.30.4", "/lib/libc.so.6"}),
            "SimGrid 3.32, Open MPI's libmpi 40.30.4, OpenBLAS 0.3.21");
}

TEST(Doctor, SaysWhyAProgramFails) {
  EXPECT_EQ(doctor::WhyItFails({"true"}, 30), "");
  EXPECT_EQ(doctor::WhyItFails({"sh", "-c", "echo no such host >&2; exit 3"}, 30), "exit status 3: no such host");
  EXPECT_EQ(doctor::WhyItFails({"no-such-program-here"}, 30), "No such file or directory");
  EXPECT_THAT(doctor::WhyItFails({"sleep", "60"}, 0.05), StartsWith("has not ended after 50.0 ms"));
}

TEST(Doctor, PrintsEachFindingWithItsRemedy) {
  const doctor::Findings findings = {{Kind::kOk, "clock", "fine", ""},
                                     {Kind::kFault, "a disk", "is full\x1b", "empty it"}};
  EXPECT_EQ(doctor::FindingsText(findings, 80, false),
            "ok     clock   fine\nfault  a disk  is full\\x1b\n               remedy: empty it\n1 fault, 0 notes\n");
  EXPECT_THAT(doctor::FindingsText(findings, 80, true), HasSubstr("\033[1;31mfault  \033[0ma disk"));
  EXPECT_EQ(doctor::FindingsJson(findings)["faults"], 1);
  EXPECT_EQ(doctor::FindingsJson(findings)["findings"][1]["kind"], "FAULT");
}

}  // namespace doctor_test
}  // namespace twofold
