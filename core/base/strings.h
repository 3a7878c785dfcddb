// absl::StrCat and StrAppend that also accept std::string_view: Debian's Abseil has a string_view type of its own.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace twofold {
namespace internal {

template <class T>
decltype(auto) ForAbsl(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return absl::string_view(value.data(), value.size());
  } else {
    return (value);
  }
}

}  // namespace internal

template <class... Parts>
std::string StrCat(const Parts&... parts) {
  return absl::StrCat(internal::ForAbsl(parts)...);
}

template <class... Parts>
void StrAppend(std::string* out, const Parts&... parts) {
  absl::StrAppend(out, internal::ForAbsl(parts)...);
}

}  // namespace twofold
