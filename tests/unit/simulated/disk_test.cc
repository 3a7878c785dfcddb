// Disks that are full, fail or lose power, below the code that writes and reads checkpoints.
#include "backends/simulated/disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/strings.h"
#include "core/io/checkpoint_folder.h"
#include "tests/scratch_folder.h"

namespace twofold::checkpoint {
namespace disk_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kBytes = 1000;

// Saves a checkpoint with one file, as strategies/checkpoint/save.cc does.
absl::Status Save(const std::string& folder, int64_t step, Disk& disk) {
  const absl::StatusOr<Begun> begun = Begin(folder, step, disk);
  if (!begun.ok()) return begun.status();
  absl::StatusOr<BlockWriter> writer = BlockWriter::Create(begun->partial, "values", kBytes, disk);
  if (!writer.ok()) return writer.status();
  WriteBuffer buffer;
  for (size_t i = 0; i < kBytes; ++i) buffer.room()[i] = static_cast<std::byte>(step + static_cast<int64_t>(i));
  buffer.Filled(kBytes);
  if (const absl::Status written = writer->Write(buffer); !written.ok()) return written;
  const absl::StatusOr<FileSum> sum = writer->Finish();
  if (!sum.ok()) return sum.status();
  if (const absl::Status synced = SyncFolder(begun->partial, disk); !synced.ok()) return synced;
  Manifest manifest;
  manifest.metadata = {.sequence = begun->sequence, .step = step, .layout = "NO_SHARD", .kind = "FULL"};
  manifest.contents.files = {*sum};
  return Commit(folder, *begun, manifest, 2, disk);
}

// The step of the last good checkpoint, all of which is read; or what is wrong with it.
std::string Last(const std::string& folder, Disk& disk = RealDisk()) {
  const absl::StatusOr<Opened> opened = Open(folder, disk);
  if (!opened.ok()) return std::string(opened.status().message());
  absl::StatusOr<CheckedFile> file = CheckedFile::Open(opened->path, opened->manifest.contents.files[0], disk);
  if (!file.ok()) return std::string(file.status().message());
  std::vector<std::byte> bytes(kBytes);
  const absl::Status read = file->Read(0, bytes);
  if (!read.ok()) return std::string(read.message());
  return StrCat("step ", opened->manifest.metadata.step);
}

class SimulatedDisks : public ::testing::Test {
 protected:
  SimulatedDisks() : folder_(StrCat(test::ScratchFolder("simulated_disk"), "/checkpoints")) { Anew(); }
  // One checkpoint, after step 10.
  void Anew() {
    fs::remove_all(folder_);
    EXPECT_TRUE(Save(folder_, 10, RealDisk()).ok());
  }
  const std::string folder_;
};

// Whatever operation is the last one: what was announced is there and whole, and what was not does not hide it.
TEST_F(SimulatedDisks, ALossOfPowerAtAnyOperationLeavesTheLastCheckpoint) {
  int announced = 0, lost = 0;
  for (const double kept : {0.0, 0.4, 1.0}) {
    for (int64_t n = 1; n <= 40; ++n) {
      Anew();
      SimulatedDisk disk;
      disk.Before(n, [kept](SimulatedDisk& d) { d.LosePower(kept); });
      const absl::Status saved = Save(folder_, 20, disk);
      saved.ok() ? ++announced : ++lost;
      EXPECT_EQ(saved.ok(), disk.has_power()) << n;
      const std::string last = Last(folder_);
      EXPECT_TRUE(last == "step 20" || (!saved.ok() && last == "step 10")) << n << ", " << kept << ": " << last;
      EXPECT_TRUE(Save(folder_, 30, RealDisk()).ok());
      EXPECT_EQ(Last(folder_), "step 30") << "what was left is no obstacle";
    }
  }
  EXPECT_GT(announced, 0);
  EXPECT_GT(lost, 30);
}

// The seam shows what would be lost: a file that is not flushed.
TEST_F(SimulatedDisks, WhatIsNotFlushedIsLostWithThePower) {
  for (const bool reserved : {false, true}) {
    for (const double kept : {0.0, 0.5}) {
      const std::string path = StrCat(folder_, "/file", reserved, kept);
      SimulatedDisk disk;
      int file = -1;
      const std::string text = "0123456789";
      ASSERT_EQ(disk.Create(path, true, file), 0);
      if (reserved) {
        ASSERT_EQ(disk.Reserve(file, 10), 0);
      }
      ASSERT_EQ(disk.Write(file, std::as_bytes(std::span(text)), 0), 0);
      disk.LosePower(kept);
      EXPECT_EQ(disk.Flush(file), EIO);
      EXPECT_EQ(disk.CloseWritten(file), 0);
      const std::string there = ReadSmallFile(path, 100).value_or("none");
      EXPECT_EQ(there, kept == 0 ? "none" : reserved ? std::string("01234\0\0\0\0\0", 10) : "01234");
    }
  }
}

TEST_F(SimulatedDisks, NamesInFoldersThatAreNotFlushedAreLostWithThePower) {
  for (const bool flushed : {false, true}) {
    for (const double kept : {0.0, 0.1}) {
      const std::string folder = StrCat(folder_, "/names", flushed, kept), other = StrCat(folder, "/other");
      fs::create_directories(StrCat(folder, "/inner.partial"));
      std::ofstream(other) << "before";
      SimulatedDisk disk;
      int file = -1;
      for (const char* name : {"/made", "/inner.partial/deep"}) {
        ASSERT_EQ(disk.Create(StrCat(folder, name), true, file), 0);
        ASSERT_EQ(disk.Write(file, std::as_bytes(std::span("x", 1)), 0), 0);
        ASSERT_EQ(disk.Flush(file), 0);
        ASSERT_EQ(disk.CloseWritten(file), 0);
      }
      ASSERT_EQ(disk.FlushFolder(StrCat(folder, "/inner.partial")), 0);
      ASSERT_EQ(disk.Rename(StrCat(folder, "/inner.partial"), StrCat(folder, "/inner")), 0);
      ASSERT_EQ(disk.Rename(other, StrCat(folder, "/renamed")), 0);
      if (flushed) {
        ASSERT_EQ(disk.FlushFolder(folder), 0);
      }
      disk.LosePower(kept);
      const bool stay = flushed || kept > 0;
      EXPECT_EQ(fs::exists(StrCat(folder, "/made")), stay);
      EXPECT_EQ(fs::exists(StrCat(folder, "/renamed")), stay);
      EXPECT_EQ(fs::exists(other), !stay);
      EXPECT_TRUE(fs::exists(StrCat(folder, stay ? "/inner/deep" : "/inner.partial/deep"))) << "its folder was flushed";
    }
  }
}

// Another rank has made a file with the name of one that this rank had not yet made safe.
TEST_F(SimulatedDisks, OnlyTheRanksOwnNamesAreLost) {
  const std::string path = StrCat(folder_, "/file");
  SimulatedDisk disk;
  int file = -1;
  ASSERT_EQ(disk.Create(path, true, file), 0);
  fs::remove(path);
  std::ofstream(path) << "another's";
  disk.LosePower(0);
  EXPECT_EQ(ReadSmallFile(path, 100).value_or("none"), "another's");
  EXPECT_EQ(disk.CloseWritten(file), 0);
}

TEST_F(SimulatedDisks, AFullDiskCostsTheCheckpointAndNoOther) {
  SimulatedDisk disk;
  disk.BecomeFull(2);
  const std::string wrong(Save(folder_, 20, disk).message());
  EXPECT_THAT(wrong, AllOf(HasSubstr("000002-step-20.partial/values: cannot be given 1000 bytes of disk space"),
                           HasSubstr("No space left on device")));
  EXPECT_EQ(Last(folder_), "step 10");
  SimulatedDisk later;
  later.Before(6, [](SimulatedDisk& d) { d.BecomeFull(1); });  // in the middle of a file
  EXPECT_THAT(std::string(Save(folder_, 20, later).message()), HasSubstr("values: cannot be written: No space left"));
  EXPECT_EQ(Last(folder_), "step 10");
  EXPECT_TRUE(Save(folder_, 20, later).ok()) << "there is space again";
  EXPECT_EQ(Last(folder_), "step 20");
}

TEST_F(SimulatedDisks, AChangedBitIsNoticedWhereverItIs) {
  for (const int file : {0, 1}) {  // the manifest, and the values
    for (const double at : {0.0, 0.2, 0.55, 0.999}) {
      Anew();
      SimulatedDisk disk;
      ASSERT_TRUE(Save(folder_, 20, disk).ok());
      const std::string path = disk.Damage(file, at);
      EXPECT_EQ(path, StrCat(folder_, "/000002-step-20/", file == 0 ? "manifest.json" : "values"));
      const std::string last = Last(folder_);
      if (file == 0) {
        EXPECT_EQ(last, "step 10") << at;  // passed over
        EXPECT_THAT(Open(folder_)->passed_over, ::testing::ElementsAre(HasSubstr(path)));
      } else {
        EXPECT_THAT(last, AllOf(HasSubstr(path), HasSubstr("have changed since they were saved")));
      }
      EXPECT_EQ(disk.Damage(file, at), path);
      EXPECT_EQ(Last(folder_), "step 20") << "the same bit, back again";
    }
  }
  SimulatedDisk disk;
  EXPECT_EQ(disk.Damage(0, 0.5), "") << "it has written none";
}

TEST_F(SimulatedDisks, ADamagedFileThatIsWrittenAnewIsAnother) {
  SimulatedDisk disk;
  ASSERT_TRUE(Save(folder_, 20, disk).ok());
  const std::string path = disk.Damage(1, 0.5);
  EXPECT_FALSE(disk.IsDeleted(0));
  fs::rename(StrCat(folder_, "/000002-step-20"), StrCat(folder_, "/elsewhere"));
  EXPECT_FALSE(disk.IsDeleted(0)) << "it has another name";
  fs::remove_all(StrCat(folder_, "/elsewhere"));
  ASSERT_TRUE(Save(folder_, 20, disk).ok());
  ASSERT_TRUE(fs::exists(path));
  EXPECT_TRUE(disk.IsDeleted(0));
  EXPECT_EQ(disk.Damage(1, 0.5), path);
  EXPECT_FALSE(disk.IsDeleted(1));
}

TEST_F(SimulatedDisks, AReadThatFailsIsToldAndMayBeTriedAgain) {
  SimulatedDisk disk;
  disk.FailReads(1);
  EXPECT_THAT(Last(folder_, disk), HasSubstr("manifest.json: cannot be read: Input/output error"));
  EXPECT_EQ(Last(folder_, disk), "step 10");
}

}  // namespace disk_test
}  // namespace twofold::checkpoint
