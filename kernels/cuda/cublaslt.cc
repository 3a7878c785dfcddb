#include "kernels/cuda/cublaslt.h"

#include <dlfcn.h>

#include "core/base/strings.h"
#include "kernels/cuda/error.h"

namespace twofold::cuda {
namespace {

#define TWOFOLD_TEXT_OF(x) #x
#define TWOFOLD_TEXT(x) TWOFOLD_TEXT_OF(x)

// Opens the library by name through the dynamic linker, or at the path known at build time.
void* Open() {
  constexpr const char* kNames[] = {"libcublasLt.so." TWOFOLD_TEXT(CUBLAS_VER_MAJOR), TWOFOLD_CUBLASLT};
  std::string why;
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    StrAppend(&why, why.empty() ? "" : "; ", std::string(dlerror()));
  }
  throw CudaError("cuBLASLt cannot be loaded: " + why);
}

template <class F>
void Find(void* library, const char* name, F& f) {
  f = reinterpret_cast<F>(dlsym(library, name));
  if (f == nullptr) throw CudaError(StrCat("cuBLASLt has no function ", name));
}

CublasLt LoadLibrary() {
  void* const library = Open();
  CublasLt lt;
#define TWOFOLD_FIND(name) Find(library, "cublasLt" #name, lt.name);
  TWOFOLD_CUBLASLT_FUNCTIONS(TWOFOLD_FIND)
#undef TWOFOLD_FIND
  return lt;
}

}  // namespace

void CublasLt::Check(cublasStatus_t status, const std::string& what) const {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  throw CudaError(StrCat("cuBLASLt: ", std::string(GetStatusString(status)), ", ", what));
}

const CublasLt& TheCublasLt() {
  static const CublasLt lt = LoadLibrary();
  return lt;
}

}  // namespace twofold::cuda
