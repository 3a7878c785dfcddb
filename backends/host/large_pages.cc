#include "backends/host/large_pages.h"

#include <cstdint>
#include <fstream>
#include <system_error>

namespace twofold::host {

bool MayUseLargePages(const std::filesystem::path& folder) {
  std::error_code error;
  bool any = false;
  for (const auto& pool : std::filesystem::directory_iterator(folder, error)) {
    for (const char* name : {"nr_hugepages", "nr_overcommit_hugepages"}) {
      int64_t pages = 0;
      if (!(std::ifstream(pool.path() / name) >> pages) || pages != 0) return false;
    }
    any = true;
  }
  return any && !error;
}

}  // namespace twofold::host
