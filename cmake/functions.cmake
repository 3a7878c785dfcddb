# twofold_library(NAME SOURCES ... [APART ...] DEPS ...): one static library a folder; DEPS are what stands below it. Presets compile
# several SOURCES at once (CMAKE_UNITY_BUILD), so that their local names must differ; but APART one by one, as files that are alike
# may use the same ones.
function(twofold_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;APART;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES} ${ARG_APART})
  set_source_files_properties(${ARG_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  twofold_precompile(${name} twofold_headers)
endfunction()

# twofold_test(NAME SOURCES ... [APART ...] DEPS ... [LABELS ...] [TIMEOUT s] [ALONE]): one GoogleTest program, one ctest entry.
# ctest -j runs beside it what the cores have room for (all labels but plain units and fuzz tests: a core for each of two ranks);
# ALONE: nothing.
function(twofold_test name)
  cmake_parse_arguments(ARG "ALONE" "TIMEOUT" "SOURCES;APART;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${ARG_APART})
  set_source_files_properties(${ARG_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  twofold_precompile(${name} twofold_test_headers)
  target_compile_options(${name} PRIVATE ${TWOFOLD_TEST_OPTIONS})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" RUN_SERIAL ${ARG_ALONE})
  # GoogleTest's TempDir(): the tests of two builds may run at once.
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/scratch)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT_MODIFICATION "TEST_TMPDIR=set:${CMAKE_BINARY_DIR}/scratch/")
  if(NOT "${ARG_LABELS}" MATCHES "^unit(;fuzz)?$")
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# twofold_gpu_program(NAME): tests/gpu/run.sh runs it, perhaps on a machine that it was carried to by scripts/gpu_bundle.sh with the
# libraries it needs (of which each finds the others by the program's own path, which the old kind of rpath is).
function(twofold_gpu_program name)
  set_property(TARGET ${name} APPEND PROPERTY BUILD_RPATH "$ORIGIN/../lib")
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  if(NOT TARGET gpu_programs)
    add_custom_target(gpu_programs)
    add_custom_target(gpu_bundle COMMAND bash ${CMAKE_SOURCE_DIR}/scripts/gpu_bundle.sh ${CMAKE_BINARY_DIR} VERBATIM)
    add_dependencies(gpu_bundle gpu_programs)
  endif()
  add_dependencies(gpu_programs ${name})
endfunction()
