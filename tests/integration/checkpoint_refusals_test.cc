// What runs say of checkpoints that they cannot go on from, that some ranks do not see, or that cannot be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/base/machine.h"
#include "core/base/strings.h"
#include "core/io/block_file.h"
#include "core/io/checkpoint_folder.h"
#include "tests/integration/checkpoint_runs.h"
#include "tests/integration/run_spec.h"

namespace twofold {
namespace checkpoint_refusals_test {

using namespace checkpoint_runs;
using test::kInMemory;
using test::Losses;
using test::RunText;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Refused : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = Folder("refused");
    RunText(Text(kPlainGpt, 2, kLayouts[3], Saving(folder_)));
    checkpoint_ = checkpoint::List(folder_).back().path;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string ErrorOf(const std::string& text) {
    spec::Spec spec = test::Resolve(text);
    const RunResult result = test::RunResolved(spec);
    EXPECT_FALSE(result.status.ok()) << text;
    return std::string(result.status.message());
  }
  std::string Resume(const std::string& more = "", const char* model = kPlainGpt) {
    return Text(model, 2, kLayouts[0], StrCat(Resuming(folder_), " ", more));
  }
  std::string folder_, checkpoint_;
};

TEST_F(Refused, OtherModelsOptimizersAndLengths) {
  EXPECT_THAT(ErrorOf(Resume("", "model { gpt { layers: 2 hidden: 32 heads: 2 vocab: 256 sequence: 8 } }\n")),
              ::testing::AllOf(HasSubstr(checkpoint_), HasSubstr("tensor \"model."),
                               HasSubstr("[256, 16]; the model of this run has [256, 32]")));
  EXPECT_THAT(ErrorOf(Resume("", "model { gpt { layers: 3 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\n")),
              ::testing::AllOf(HasSubstr("tensor \"model.blocks.2."),
                               HasSubstr("is not in this checkpoint; the model of this run has one")));
  EXPECT_THAT(ErrorOf(Resume("", "model { gpt { layers: 1 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\n")),
              ::testing::AllOf(HasSubstr("blocks.1."), HasSubstr("the model of this run has no such tensor")));
  EXPECT_THAT(ErrorOf(Resume("optimizer { sgd { momentum: 0.9 } }")),
              ::testing::AllOf(HasSubstr("tensor \"optimizer.momentum_buffer."), HasSubstr("it was saved with adamw")));
  EXPECT_THAT(ErrorOf(Resume("optimizer { sgd {} }")),
              ::testing::AllOf(HasSubstr("tensor \"optimizer.exp_avg"),
                               HasSubstr("which was saved with adamw; train.optimizer sgd of this run")));
  EXPECT_THAT(ErrorOf(StrCat(kPlainGpt, "train { steps: 3 resume: \"", folder_, "/000001-step-3\" }", kInMemory)),
              HasSubstr("was saved after step 3, so train.steps = 3 leaves nothing to do"));
}

TEST_F(Refused, DamagedFiles) {
  const std::string file = checkpoint_ + "/rank-00001.safetensors";
  const auto size = static_cast<std::streamoff>(fs::file_size(file));
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(size - 3).put('\x55');
  EXPECT_THAT(ErrorOf(Resume()), ::testing::AllOf(HasSubstr(file), HasSubstr("have changed since they were saved")));
  fs::resize_file(file, static_cast<uintmax_t>(size) - 1);
  EXPECT_THAT(ErrorOf(Resume()),
              HasSubstr(StrCat(file, ": has ", size - 1, " bytes, but had ", size, " when it was saved")));
  fs::remove(file);
  EXPECT_THAT(ErrorOf(Resume()), HasSubstr(StrCat(file, ": cannot be read")));
  // The latest good one is found past it.
  const auto opened = checkpoint::Open(folder_);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->manifest.metadata.step, kSteps);
}

// ---- Ranks that see other folders than rank 0, as on hosts whose disks are not shared ----

class Apart : public ::testing::Test {
 protected:
  void SetUp() override { RunText(Text(kPlainGpt, 2, kLayouts[3], Saving(both_))); }
  void TearDown() override {
    for (const std::string& folder : {both_, older_, other_}) fs::remove_all(folder);
  }
  static void Copy(const std::string& from, const std::string& to) {
    fs::create_directories(to);
    fs::copy(from, to, fs::copy_options::recursive);
  }
  // Goes on for two steps more than were saved: rank r from the latest good checkpoint in the folder seen[r].
  RunResult Resume(const std::vector<std::string>& seen, spec::Spec& spec) {
    spec = test::Resolve(StrCat(kPlainGpt, "train { steps: ", kSteps + 2,
                                " global_batch: 12 micro_batch: 1 seed: 3 resume: \"", seen[0],
                                "\" }\nparallel { dp: 2 sharding: ZERO_3 }\nfabric { in_memory {} timeout_s: 5 }\n"));
    auto data = LoadTrainingData(spec, "test.textproto");
    EXPECT_TRUE(data.ok()) << data.status().message();
    std::vector<spec::Spec> specs(2, spec);
    for (size_t r = 0; r < 2; ++r) specs[r].mutable_train()->set_resume(seen[r]);
    return (*MakeFabric(spec))->Run(2, [&](RankContext& ctx) {
      return TrainRank(ctx, TrainingOptionsOf(specs[static_cast<size_t>(ctx.rank())]), data->samples());
    });
  }
  std::string ErrorOf(const std::vector<std::string>& seen) {
    spec::Spec spec;
    const RunResult result = Resume(seen, spec);
    EXPECT_FALSE(result.status.ok());
    return std::string(result.status.message());
  }
  std::vector<report::RankRecord> Records(const std::vector<std::string>& seen) {
    spec::Spec spec;
    const RunResult result = Resume(seen, spec);
    EXPECT_TRUE(result.status.ok()) << result.status.message();
    return test::RecordsOf(spec, result);
  }
  static std::string ManifestSum(const std::string& checkpoint) {
    std::ifstream in(checkpoint + "/manifest.json", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    return absl::StrFormat("%016x", checkpoint::Checksum(std::as_bytes(std::span(text))));
  }

  const std::string both_ = Folder("both"), older_ = Folder("older"), other_ = Folder("other");
  static constexpr char kOlder[] = "/000001-step-3", kNewer[] = "/000002-step-6";
};

TEST_F(Apart, RanksGoOnFromWhatRank0Chose) {
  Copy(both_ + kOlder, older_ + kOlder);
  const std::vector<report::RankRecord> records = Records({older_, both_}), reference = Records({older_, older_});
  for (const report::RankRecord& record : records) {
    EXPECT_EQ(record.first_step(), kStop);
    EXPECT_EQ(Losses(record), Losses(reference[0]));
  }
}

TEST_F(Apart, RanksThatDoNotSeeItSaySo) {
  Copy(both_ + kOlder, older_ + kOlder);
  EXPECT_THAT(
      ErrorOf({both_, older_}),
      ::testing::AllOf(
          HasSubstr(StrCat("rank 1 on ", HostName(), ": train.resume: ", older_, kNewer)), HasSubstr("cannot be read"),
          HasSubstr(StrCat("rank 0 on ", HostName(), " resumes from ", both_, kNewer,
                           ", whose manifest.json has checksum ", ManifestSum(both_ + kNewer))),
          HasSubstr(StrCat("rank 1 finds no checkpoint there; its latest checkpoint is ", older_, kOlder))));
}

TEST_F(Apart, RanksThatSeeAnotherOfThatNameSaySo) {
  RunText(Text(kGpt, 2, kLayouts[3], Saving(other_)));  // with dropout
  EXPECT_THAT(
      ErrorOf({both_, other_}),
      ::testing::AllOf(HasSubstr(StrCat("rank 1 on ", HostName(), ": train.resume: ", other_, kNewer, "/rank-0000")),
                       HasSubstr("have changed since they were saved"),
                       HasSubstr(StrCat("rank 0 on ", HostName(), " resumes from ", both_, kNewer,
                                        ", whose manifest.json has checksum ", ManifestSum(both_ + kNewer))),
                       HasSubstr(StrCat("the manifest.json of rank 1 has checksum ", ManifestSum(other_ + kNewer)))));
}

// Its content comes from rank 0, whatever it has.
TEST_F(Apart, RankZeroAloneReadsTheManifest) {
  Copy(both_ + kNewer, other_ + kNewer);
  fs::remove(other_ + kNewer + "/manifest.json");
  const std::vector<report::RankRecord> records = Records({both_, other_}), reference = Records({both_, both_});
  EXPECT_EQ(Losses(records[1]), Losses(reference[0]));
  EXPECT_EQ(records[1].first_step(), kSteps);
}

// A disk that cannot be written to ends the run, and says so.
TEST(Checkpoints, SayWhatCouldNotBeWritten) {
  for (const char* kind : {kSharded, kFull, kAsync}) {
    spec::Spec spec = test::Resolve(Text(kPlainGpt, 2, kLayouts[3], Saving("/proc/no/such/place", kind)));
    const RunResult result = test::RunResolved(spec);
    EXPECT_THAT(std::string(result.status.message()),
                HasSubstr("rank 0: checkpoint: /proc/no/such/place: cannot be created"));
  }
}

}  // namespace checkpoint_refusals_test
}  // namespace twofold
