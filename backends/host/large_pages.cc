#include "backends/host/large_pages.h"

#include <cstdint>
#include <fstream>
#include <system_error>

namespace twofold::host {

bool MayUseLargePages(const std::filesystem::path& folder) {
  std::error_code error;
  bool any = false;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator pool(folder, error); !error && pool != end; pool.increment(error)) {
    for (const char* name : {"nr_hugepages", "nr_overcommit_hugepages"}) {
      int64_t pages = 0;
      if (!(std::ifstream(pool->path() / name) >> pages) || pages != 0) return false;
    }
    any = true;
  }
  return any && !error;
}

}  // namespace twofold::host
