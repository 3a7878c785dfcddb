# The headers of others that most files read, parsed once: for libraries, and with GoogleTest's for tests. No header of ours is
# among them. Each header here makes every object take longer, so one that few files read (nlohmann's json) costs more than it saves.
# OFF shows whether a file includes all that it needs.
option(TWOFOLD_PRECOMPILED "Precompile the headers of the standard library, Abseil, Protobuf and GoogleTest" ON)

set(TWOFOLD_COMMON_HEADERS
    <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <filesystem> <fstream> <functional>
    <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <string> <string_view> <thread> <utility> <vector>
    <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>
    <google/protobuf/extension_set.h> <google/protobuf/generated_enum_reflection.h> <google/protobuf/map_field_inl.h>
    <google/protobuf/message.h> <google/protobuf/repeated_field.h> <google/protobuf/unknown_field_set.h>)

# twofold_precompile(TARGET HOLDER): `target` reads what HOLDER has parsed. Its options must be HOLDER's; definitions may be more.
function(twofold_precompile target holder)
  if(TWOFOLD_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM ${holder})
  endif()
endfunction()

if(TWOFOLD_PRECOMPILED)
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cc "")
  add_library(twofold_headers OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
  target_link_libraries(twofold_headers PRIVATE absl::statusor absl::str_format protobuf::libprotobuf)
  target_precompile_headers(twofold_headers PRIVATE ${TWOFOLD_COMMON_HEADERS})
  if(TWOFOLD_TESTS)
    add_library(twofold_test_headers OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
    target_link_libraries(twofold_test_headers PRIVATE absl::statusor absl::str_format protobuf::libprotobuf GTest::gtest GTest::gmock)
    target_compile_options(twofold_test_headers PRIVATE ${TWOFOLD_TEST_OPTIONS})
    target_precompile_headers(twofold_test_headers PRIVATE ${TWOFOLD_COMMON_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endif()
