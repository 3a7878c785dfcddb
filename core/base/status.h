// Errors from parts: NotFound(path, ": no such file") is absl::NotFoundError(StrCat(path, ": no such file")).
#pragma once

#include "absl/status/status.h"
#include "core/base/strings.h"

namespace twofold {

template <class... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(StrCat(parts...));
}

template <class... Parts>
absl::Status NotFound(const Parts&... parts) {
  return absl::NotFoundError(StrCat(parts...));
}

template <class... Parts>
absl::Status FailedPrecondition(const Parts&... parts) {
  return absl::FailedPreconditionError(StrCat(parts...));
}

template <class... Parts>
absl::Status Unavailable(const Parts&... parts) {
  return absl::UnavailableError(StrCat(parts...));
}

template <class... Parts>
absl::Status Internal(const Parts&... parts) {
  return absl::InternalError(StrCat(parts...));
}

}  // namespace twofold
