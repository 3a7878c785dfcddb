// Large pages are asked for only where none are set aside.
#include "backends/host/large_pages.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/scratch_folder.h"

namespace twofold::host {
namespace large_pages_test {

TEST(LargePages, AreNotTakenFromAPool) {
  const std::filesystem::path pools = test::ScratchFolder("large_pages");
  EXPECT_FALSE(MayUseLargePages(pools)) << "there is no such folder";
  std::filesystem::create_directories(pools);
  EXPECT_FALSE(MayUseLargePages(pools)) << "the system says nothing";
  const auto write = [&](const char* size, const char* name, int pages) {
    std::filesystem::create_directories(pools / size);
    std::ofstream(pools / size / name) << pages << "\n";
  };
  for (const char* size : {"hugepages-2048kB", "hugepages-1048576kB"}) {
    for (const char* name : {"nr_hugepages", "nr_overcommit_hugepages"}) write(size, name, 0);
  }
  EXPECT_TRUE(MayUseLargePages(pools));
  write("hugepages-2048kB", "nr_overcommit_hugepages", 8);
  EXPECT_FALSE(MayUseLargePages(pools));
  write("hugepages-2048kB", "nr_overcommit_hugepages", 0), write("hugepages-1048576kB", "nr_hugepages", 1);
  EXPECT_FALSE(MayUseLargePages(pools));
}

}  // namespace large_pages_test
}  // namespace twofold::host
