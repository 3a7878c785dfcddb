#include "experiments/program/desk/shelf.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "core/base/strings.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/write_report.h"
#include "tests/scratch_folder.h"

namespace twofold::desk {
namespace shelf_test {

namespace fs = std::filesystem;

class ShelfTest : public ::testing::Test {
 protected:
  std::string At(const std::string& name) const { return (fs::path(scratch_) / name).string(); }
  void WriteRun(const std::string& folder, const std::string& name) const {
    report::Report report;
    report.set_schema_version(kReportSchemaVersion), report.set_name(name), report.set_world_size(1),
        report.add_ranks();
    fs::create_directories(At(folder));
    ASSERT_TRUE(WriteFiles(At(folder), {{"report.json", ReportText(report)}}).ok());
  }
  // Folder and name of each, in the order of the folders.
  static std::string Seen(Shelf& shelf) {
    std::vector<Item> items = shelf.Items();
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.path < b.path; });
    std::string text;
    for (const Item& item : items) StrAppend(&text, item.path, "=", item.error.empty() ? item.name : "error", " ");
    return text;
  }

  const std::string scratch_ = test::ScratchFolder("shelf");
};

TEST_F(ShelfTest, ReadsAFileAgainOnlyAfterItChanged) {
  WriteRun("a", "one"), WriteRun("b/c", "two");
  Shelf shelf(scratch_);
  EXPECT_EQ(Seen(shelf), "a=one b/c=two ");
  EXPECT_EQ(shelf.files_read(), 2);
  EXPECT_EQ(Seen(shelf), "a=one b/c=two ");
  EXPECT_EQ(shelf.files_read(), 2) << "nothing has changed";

  // replaced by one of the same size and time
  struct stat before {};
  ASSERT_EQ(stat(At("a/report.json").c_str(), &before), 0);
  WriteRun("a", "uno");
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, At("a/report.json").c_str(), times, 0), 0);
  EXPECT_EQ(Seen(shelf), "a=uno b/c=two ");
  EXPECT_EQ(shelf.files_read(), 3);

  // changed in its place, of the same size: only the time tells
  {
    FILE* file = fopen(At("a/report.json").c_str(), "r+");
    ASSERT_NE(file, nullptr);
    fputs("[", file), fclose(file);
  }
  timespec later[2] = {before.st_atim, before.st_mtim};
  later[1].tv_nsec = (later[1].tv_nsec + 1) % 1'000'000'000;
  ASSERT_EQ(utimensat(AT_FDCWD, At("a/report.json").c_str(), later, 0), 0);
  EXPECT_EQ(Seen(shelf), "a=error b/c=two ");
  EXPECT_EQ(shelf.files_read(), 4);

  fs::remove_all(At("a"));
  EXPECT_EQ(Seen(shelf), "b/c=two ");
  WriteRun("a", "new"), WriteRun("d", "four");
  EXPECT_EQ(Seen(shelf), "a=new b/c=two d=four ");
  EXPECT_EQ(shelf.files_read(), 6);
}

TEST_F(ShelfTest, ThreadsShareIt) {
  for (int i = 0; i < 20; ++i) WriteRun(StrCat("run", i), "r");
  Shelf shelf(scratch_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) EXPECT_EQ(shelf.Items().size(), 20u);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shelf.files_read(), 20);
}

}  // namespace shelf_test
}  // namespace twofold::desk
