#include "core/base/machine.h"

#include <unistd.h>

#include <array>
#include <fstream>

#include "core/base/strings.h"

namespace twofold {

std::string HostName() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string MachineId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return StrCat(HostName(), " ", boot);
}

Bytes MachineMemory() { return Bytes(int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE)); }

}  // namespace twofold
