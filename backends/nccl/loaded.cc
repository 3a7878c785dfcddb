#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "backends/nccl/api.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::nccl {
namespace {

constexpr const char* kFile = "libnccl.so.2";

// Tried in order: the user's choice, the name that the dynamic linker knows, the location at build time.
std::vector<std::string> Places() {
  std::vector<std::string> places;
  if (const char* home = std::getenv("NCCL_HOME"); home != nullptr && *home != '\0') {
    for (const char* folder : {"/lib/", "/lib64/", "/"}) places.push_back(StrCat(std::string(home), folder, kFile));
  }
  places.emplace_back(kFile);
  if (*TWOFOLD_NCCL_LIBRARY != '\0') places.emplace_back(TWOFOLD_NCCL_LIBRARY);
  return places;
}

}  // namespace

absl::StatusOr<Api> LoadFunctions() {
  Api api;
  void* library = nullptr;
  std::string why;
  for (const std::string& place : Places()) {
    library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      api.from = place;
      break;
    }
    StrAppend(&why, why.empty() ? "" : "; ", std::string(dlerror()));
  }
  if (library == nullptr) {
    return Unavailable("NCCL cannot be loaded (", why,
                       "); install libnccl2, or set NCCL_HOME to the folder whose lib/ has ", kFile);
  }
#define TWOFOLD_FIND(name)                                                       \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, "nccl" #name)); \
  if (api.name == nullptr)                                                       \
    return FailedPrecondition(StrCat(api.from, " has no function nccl" #name "; NCCL 2.18 or later is needed"));
  TWOFOLD_NCCL_FUNCTIONS(TWOFOLD_FIND)
#undef TWOFOLD_FIND
  api.AlltoAll = reinterpret_cast<decltype(api.AlltoAll)>(dlsym(library, "ncclAlltoAll"));
  return api;
}

}  // namespace twofold::nccl
