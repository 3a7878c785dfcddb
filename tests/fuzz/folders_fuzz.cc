// Many damaged folders of runs, plans, sweeps, storms and studies, one file of each at a time: each becomes a page, or
// a message that names the file.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/page/page.h"
#include "experiments/program/pictures/run_data.h"
#include "experiments/program/report/gzip.h"
#include "experiments/program/report/link_files.h"
#include "experiments/program/report/network_file.h"
#include "tests/fuzz/mutate.h"

namespace twofold {
namespace folders_fuzz {

namespace fs = std::filesystem;

// Of all files of one kind of folder. Fewer than of other inputs in the gate, since each is written and read as a file.
const int kMutants = Full() ? 100000 : 800;

constexpr std::string_view kWords[] = {"{",
                                       "}",
                                       "[",
                                       "]",
                                       ",",
                                       ":",
                                       "\"",
                                       "\n",
                                       "null",
                                       "true",
                                       "nan",
                                       "inf",
                                       "-1",
                                       "1e300",
                                       "\"rows\":[],",
                                       "\"load\":[9223372036854775807],",
                                       "\"series\":-2,",
                                       "\"from\":99,",
                                       "\"ph\":\"X\",",
                                       "\"pid\":-1,",
                                       "\"dur\":1e30,",
                                       "\"seconds\":null,",
                                       "dp: 0",
                                       "pp: 3 ",
                                       "\"\"",
                                       "\xff"};

std::string TextOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class FoldersFuzz : public testing::Test {
 protected:
  // Damages `file` of a folder of this kind in so many ways. `read` says why a folder is refused.
  template <class Read>
  void Damage(const std::string& kind, const std::string& file, int mutants, Read read) {
    const fs::path good = fs::path("tests/data/folders") / kind,
                   folder = fs::path(testing::TempDir()) / ("fuzz-" + kind);
    fs::remove_all(folder);
    fs::copy(good, folder);
    ASSERT_EQ(read(folder.string(), true), absl::OkStatus()) << "the folder that is damaged must itself be read";
    const std::string whole = TextOf(good / file);
    const bool zipped = IsGzip(whole);
    const std::string text = zipped ? *Gunzip(whole, 1 << 20) : whole;
    test::Mutator mutator(SeedOf(TestSeed(), file), {.words = kWords});
    test::Mutator of_gzip(SeedOf(TestSeed(1), file), {.numbers = false});
    int accepted = 0;
    for (int i = 0; i < mutants; ++i) {
      const std::string damaged = !zipped        ? mutator.Damage(text)
                                  : i % 16 == 15 ? of_gzip.Damage(whole)
                                                 : Gzip(mutator.Damage(text));
      fs::remove(folder / file);  // a new file costs less than one that is overwritten
      std::ofstream(folder / file, std::ios::binary) << damaged;
      const absl::Status status = read(folder.string(), i % 8 == 0);
      const auto said = [&] { return StrCat(status.ToString(), "\n", file, ":\n", zipped ? "(gzip)" : damaged); };
      if (status.ok()) {
        ++accepted;
        continue;
      }
      ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << said();
      ASSERT_NE(status.message().find(folder.string()), std::string_view::npos) << said();
    }
    EXPECT_GT(accepted, mutants / 50) << file << ": the mutations no longer leave readable files";
    EXPECT_LT(accepted, mutants) << file;
    fs::remove_all(folder);
  }

  template <class Read>
  void DamageRun(const std::string& file, int share, Read read) {
    Damage("run", file, kMutants / share, [&](const std::string& folder, bool drawn) {
      return drawn ? page::PageOfFolders({folder}).status() : read(folder);
    });
  }
  void DamageAlone(const std::string& kind, const std::string& file) {
    Damage(kind, file, kMutants / 5,
           [](const std::string& folder, bool) { return page::PageOfFolders({folder}).status(); });
  }
};

TEST_F(FoldersFuzz, LinksOfRuns) {
  const auto read = [](const std::string& folder) { return ReadLinkLoads(folder).status(); };
  DamageRun("links.csv", 2, read);
  DamageRun("link_loads.csv", 2, read);
}

TEST_F(FoldersFuzz, NetworksOfRuns) {
  DamageRun(kNetwork, 2,
            [](const std::string& folder) { return ReadNetworkFile(StrCat(folder, "/", kNetwork)).status(); });
}

TEST_F(FoldersFuzz, OtherFilesOfRuns) {
  for (const char* file : {"report.json", "trace.json", "memory.csv", "memory_blocks.json.gz", "spec.textproto"})
    DamageRun(file, 5, [](const std::string& folder) { return pictures::ReadRun(folder).status(); });
}

TEST_F(FoldersFuzz, Plans) {
  DamageAlone("plan", "plan.json");
  DamageAlone("plan", "layouts.csv");
}

TEST_F(FoldersFuzz, Sweeps) { DamageAlone("sweep", "sweep.json"); }
TEST_F(FoldersFuzz, Storms) { DamageAlone("storm", "replay.json"); }
TEST_F(FoldersFuzz, Studies) { DamageAlone("study", "results.json"); }

}  // namespace folders_fuzz
}  // namespace twofold
