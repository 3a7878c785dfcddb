// Large pages for the memory of a process.
#pragma once

#include <filesystem>

namespace twofold::host {

// Whether the allocator may ask for large pages: the system makes them of free memory (transparent huge pages), and has
// none set aside. Of a set-aside pool, a container or a forked process may be refused a page when it first touches it,
// which ends it (SIGBUS); and the pages belong to others. False if the system does not say. `folder`: where Linux lists
// its pools.
bool MayUseLargePages(const std::filesystem::path& folder = "/sys/kernel/mm/hugepages");

}  // namespace twofold::host
