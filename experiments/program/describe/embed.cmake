# cmake -DFILE=... -DNAME=... -DHEADER=... -P embed.cmake: a header with the bytes of FILE as twofold::NAME.
file(READ ${FILE} bytes HEX)
string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
string(REGEX REPLACE "(................................................................................................................)" "\\1\"\n\"" bytes "${bytes}")
get_filename_component(from ${FILE} NAME)
file(WRITE ${HEADER} "// Made by CMake from ${from}.
#pragma once
#include <string_view>
namespace twofold {
inline constexpr char ${NAME}Bytes[] = \"${bytes}\";
inline constexpr std::string_view ${NAME}(${NAME}Bytes, sizeof(${NAME}Bytes) - 1);
}  // namespace twofold
")
