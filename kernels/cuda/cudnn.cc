#include "kernels/cuda/cudnn.h"

#include <dlfcn.h>

#include <array>

#include "core/base/strings.h"
#include "kernels/cuda/error.h"

namespace twofold::cuda {
namespace {

#define TWOFOLD_TEXT_OF(x) #x
#define TWOFOLD_TEXT(x) TWOFOLD_TEXT_OF(x)

struct Loaded {
  Cudnn cudnn = {};
  std::string why_not;
};

// Opens the library by name through the dynamic linker, or at the path known at build time.
Loaded Load() {
  constexpr const char* kNames[] = {"libcudnn.so." TWOFOLD_TEXT(CUDNN_MAJOR), TWOFOLD_CUDNN};
  Loaded loaded;
  void* library = nullptr;
  for (const char* name : kNames) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    StrAppend(&loaded.why_not, loaded.why_not.empty() ? "cuDNN cannot be loaded: " : "; ", std::string(dlerror()));
  }
  if (library == nullptr) return loaded;
  loaded.why_not.clear();
  const auto find = [&]<class F>(const char* name, F& f) {
    f = reinterpret_cast<F>(dlsym(library, name));
    if (f == nullptr && loaded.why_not.empty()) loaded.why_not = StrCat("cuDNN has no function ", name);
  };
#define TWOFOLD_FIND(name) find("cudnn" #name, loaded.cudnn.name);
  TWOFOLD_CUDNN_FUNCTIONS(TWOFOLD_FIND)
#undef TWOFOLD_FIND
  return loaded;
}

const Loaded& Once() {
  static const Loaded loaded = Load();
  return loaded;
}

}  // namespace

void Cudnn::Check(cudnnStatus_t status, const std::string& what) const {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  std::array<char, 512> more = {};
  GetLastErrorString(more.data(), more.size());
  throw CudaError(StrCat("cuDNN: ", GetErrorString(status), ", ", what, more[0] == 0 ? "" : ": ", more.data()));
}

const std::string& WhyNoCudnn() { return Once().why_not; }

const Cudnn& TheCudnn() {
  const Loaded& loaded = Once();
  if (!loaded.why_not.empty()) throw CudaError(loaded.why_not);
  return loaded.cudnn;
}

}  // namespace twofold::cuda
