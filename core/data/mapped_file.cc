#include "core/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path, int64_t least, std::string_view what,
                                            std::string_view remedy) {
  const auto refuse = [&](std::string_view why) {
    return InvalidArgument(path, ": cannot be read: ", why, "; ", remedy);
  };
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return refuse(std::strerror(errno));
  struct stat info {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(file);
    return refuse("not a regular file");
  }
  if (info.st_size < least) {
    close(file);
    return RefuseFile(path, info.st_size, "the file ends within ", what, ", which takes ", least,
                      " bytes; give a complete file");
  }
  void* data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (data == MAP_FAILED) return refuse(std::strerror(error));
  return MappedFile(static_cast<const std::byte*>(data), info.st_size);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
}

}  // namespace twofold
