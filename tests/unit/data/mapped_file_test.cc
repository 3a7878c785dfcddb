#include "core/data/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/scratch_folder.h"

namespace twofold {
namespace mapped_file_test {

namespace fs = std::filesystem;

// A folder that is listed has a descriptor, too: in each count.
auto OpenDescriptors() { return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()); }

class MappedFileTest : public ::testing::Test {
 protected:
  MappedFileTest() {
    fs::create_directories(folder_);
    std::ofstream(Path("whole")) << "whole";
    mkfifo(Path("pipe").c_str(), 0600);
  }
  ~MappedFileTest() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  absl::StatusOr<MappedFile> Open(const std::string& name, int64_t least) const {
    return MappedFile::Open(Path(name), least, "the header", "give another");
  }

 private:
  const std::string folder_ = test::ScratchFolder("mapped_file");
};

TEST_F(MappedFileTest, HoldsWhatIsInTheFile) {
  const absl::StatusOr<MappedFile> file = Open("whole", 5);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->data()), static_cast<size_t>(file->size())), "whole");
}

TEST_F(MappedFileTest, RefusesWhatIsNoFileAndWhatIsTooShort) {
  for (const char* name : {"missing", "pipe", "."}) EXPECT_FALSE(Open(name, 1).ok()) << name;
  EXPECT_FALSE(Open("whole", 6).ok());
}

TEST_F(MappedFileTest, KeepsNoDescriptorOpen) {
  const auto before = OpenDescriptors();
  const absl::StatusOr<MappedFile> file = Open("whole", 5);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(OpenDescriptors(), before) << "of a file that is mapped";
  for (const char* name : {"missing", "pipe", "."}) EXPECT_FALSE(Open(name, 1).ok()) << name;
  EXPECT_FALSE(Open("whole", 6).ok());
  EXPECT_EQ(OpenDescriptors(), before) << "of files that are refused";
}

}  // namespace mapped_file_test
}  // namespace twofold
