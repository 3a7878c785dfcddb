// The program's messages on stderr: "twofold: error: ...", in colour where output.h says so. Only log.cc includes the
// logging library, whose headers take seconds to compile.
#pragma once

#include <string>

#include "core/base/strings.h"

namespace twofold {

namespace internal {
enum class LogLevel { kInfo, kWarning, kError };
void Log(LogLevel level, const std::string& text);
}  // namespace internal

// Call it once, before the first message. Control characters in messages are escaped (core/base/printable.h).
void LogToStderr();
// Follows output.h: call it again after UseColour or UseVerbosity. kQuiet leaves out LogInfo.
void StyleLog();

// The message is StrCat(parts...).
template <class... Parts>
void LogInfo(const Parts&... parts) {
  internal::Log(internal::LogLevel::kInfo, StrCat(parts...));
}
template <class... Parts>
void LogWarning(const Parts&... parts) {
  internal::Log(internal::LogLevel::kWarning, StrCat(parts...));
}
template <class... Parts>
void LogError(const Parts&... parts) {
  internal::Log(internal::LogLevel::kError, StrCat(parts...));
}

}  // namespace twofold
