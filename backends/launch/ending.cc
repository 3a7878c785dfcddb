#include "backends/launch/ending.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "core/base/strings.h"

namespace twofold {

namespace fs = std::filesystem;

// The file has the code in its first line, then the message. It is renamed once it is complete.
void LeaveEnding(int rank, const absl::Status& status) {
  const char* const folder = std::getenv(kEndingsVariable);
  if (folder == nullptr || *folder == '\0') return;
  const std::string path = StrCat(folder, "/", rank), partial = StrCat(path, ".partial");
  std::ofstream(partial, std::ios::binary) << static_cast<int>(status.code()) << "\n" << std::string(status.message());
  std::error_code ignored;
  fs::rename(partial, path, ignored);
}

std::map<int, absl::Status> ReadEndings(const std::string& folder) {
  std::map<int, absl::Status> endings;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    int rank = 0, code = 0;
    if (!absl::SimpleAtoi(it->path().filename().string(), &rank)) continue;
    std::ifstream file(it->path(), std::ios::binary);
    std::ostringstream message;
    file >> code;
    file.get();
    message << file.rdbuf();
    endings[rank] = absl::Status(static_cast<absl::StatusCode>(code), message.str());
  }
  return endings;
}

}  // namespace twofold
