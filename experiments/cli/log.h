// Messages of the program, on stderr: "twofold: error: ...", in colour where that is a terminal. Its header costs nothing to compile:
// log.cc alone reads the logging library's.
#pragma once

#include <string>

#include "core/base/strings.h"

namespace twofold {

namespace internal {
enum class LogLevel { kInfo, kWarning, kError };
void Log(LogLevel level, const std::string& text);
}  // namespace internal

// Before the first message, once. What is not printable in a message's files, arguments and names is not printed as it stands.
void LogToStderr();

// As StrCat has the parts.
template <class... Parts>
void LogInfo(const Parts&... parts) { internal::Log(internal::LogLevel::kInfo, StrCat(parts...)); }
template <class... Parts>
void LogWarning(const Parts&... parts) { internal::Log(internal::LogLevel::kWarning, StrCat(parts...)); }
template <class... Parts>
void LogError(const Parts&... parts) { internal::Log(internal::LogLevel::kError, StrCat(parts...)); }

}  // namespace twofold
