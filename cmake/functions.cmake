# twofold_library(NAME SOURCES ... [APART ...] DEPS ... [HOT]): one static library a folder; DEPS are what stands below it. Presets
# compile several SOURCES at once (CMAKE_UNITY_BUILD), so that their local names must differ; but APART one by one, as files that are
# alike may use the same ones. HOT: tests spend their time in it, so that sanitizer builds optimise it; others are sooner compiled.
function(twofold_library name)
  cmake_parse_arguments(ARG "HOT" "" "SOURCES;APART;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES} ${ARG_APART})
  set_source_files_properties(${ARG_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  twofold_installed(${name})
  if(ARG_HOT)
    twofold_precompile(${name} twofold_headers)
  else()
    twofold_compile_soon(${name})
  endif()
endfunction()

# twofold_installed(TARGET ...): libraries that cmake/install.cmake installs, if it has not been included yet.
function(twofold_installed)
  set_property(GLOBAL APPEND PROPERTY TWOFOLD_LIBRARIES ${ARGN})
endfunction()

# twofold_compile_soon(TARGET): sanitizer builds do not optimise it.
function(twofold_compile_soon target)
  if(TWOFOLD_SANITIZE AND TWOFOLD_TESTS)
    target_compile_options(${target} PRIVATE ${TWOFOLD_TEST_OPTIONS} $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_OPTIONS>)  # as their headers were parsed
    twofold_precompile(${target} twofold_test_headers)
  else()
    twofold_precompile(${target} twofold_headers)
  endif()
endfunction()

# twofold_test(NAME SOURCES ... [APART ...] DEPS ... [UNDER release asan tsan] [LABELS ...] [SHARDS n] [CORES n] [TIMEOUT s] [ALONE])
# One GoogleTest program. A file's tests and helpers stand in a namespace named after the file, so that presets may compile several
# files at once; APART one by one.
#   UNDER    the builds of the gate (tests/run.sh) that build and run it: where its faults show. None: --full alone.
#   LABELS   processes: its ranks are processes, and a second try may pass; gpu: wants a GPU; fuzz, forks, full: tests/CMakeLists.txt
#   SHARDS   so many ctest entries, NAME_1 and so on, share its tests
#   CORES    that it keeps busy; ctest -j runs beside it what the machine has room for. ALONE: nothing.
function(twofold_test name)
  cmake_parse_arguments(ARG "ALONE" "TIMEOUT;SHARDS;CORES" "SOURCES;APART;DEPS;UNDER;LABELS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES} ${ARG_APART})
  set_source_files_properties(${ARG_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  twofold_precompile(${name} twofold_test_headers)
  target_compile_options(${name} PRIVATE ${TWOFOLD_TEST_OPTIONS})
  twofold_test_target(${name} ${ARG_UNDER})
  set(entries ${name})
  if(ARG_SHARDS)
    set(entries)
    foreach(shard RANGE 1 ${ARG_SHARDS})
      list(APPEND entries ${name}_${shard})
    endforeach()
  endif()
  set(shard 0)
  foreach(entry ${entries})
    add_test(NAME ${entry} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    twofold_test_entry(${entry} UNDER ${ARG_UNDER} LABELS ${ARG_LABELS} CORES ${ARG_CORES} TIMEOUT ${ARG_TIMEOUT})
    set_tests_properties(${entry} PROPERTIES RUN_SERIAL ${ARG_ALONE})
    # GoogleTest's TempDir(): the tests of two builds may run at once. Times of single tests are read by tests/summary.py.
    set_tests_properties(${entry} PROPERTIES ENVIRONMENT_MODIFICATION
      "TEST_TMPDIR=set:${PROJECT_BINARY_DIR}/scratch/;GTEST_OUTPUT=set:xml:${PROJECT_BINARY_DIR}/times/${entry}.xml")
    if(ARG_SHARDS)
      set_property(TEST ${entry} APPEND PROPERTY ENVIRONMENT_MODIFICATION GTEST_TOTAL_SHARDS=set:${ARG_SHARDS} GTEST_SHARD_INDEX=set:${shard})
      math(EXPR shard "${shard} + 1")
    endif()
  endforeach()
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/scratch)
endfunction()

# twofold_test_target(TARGET [BUILD ...]): the targets tests_BUILD, by which tests/run.sh builds, and tests_all hold it.
function(twofold_test_target target)
  foreach(build all ${ARGN})
    if(NOT TARGET tests_${build})
      add_custom_target(tests_${build})
    endif()
    add_dependencies(tests_${build} ${target})
  endforeach()
endfunction()

# twofold_test_entry(ENTRY [UNDER ...] [LABELS ...] [CORES n] [TIMEOUT s]): an entry of ctest, labelled with the builds that run it.
function(twofold_test_entry entry)
  cmake_parse_arguments(ARG "" "TIMEOUT;CORES" "UNDER;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_CORES)
    set(ARG_CORES 1)
  endif()
  set_tests_properties(${entry} PROPERTIES LABELS "${ARG_UNDER};${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${ARG_CORES})
endfunction()

# twofold_gpu_program(NAME): tests/gpu/run.sh runs it, perhaps on a machine that it was carried to by scripts/gpu_bundle.sh with the
# libraries it needs (of which each finds the others by the program's own path, which the old kind of rpath is).
function(twofold_gpu_program name)
  set_property(TARGET ${name} APPEND PROPERTY BUILD_RPATH "$ORIGIN/../lib")
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  if(NOT TARGET gpu_programs)
    add_custom_target(gpu_programs)
    add_custom_target(gpu_bundle COMMAND bash ${PROJECT_SOURCE_DIR}/scripts/gpu_bundle.sh ${PROJECT_BINARY_DIR} VERBATIM)
    add_dependencies(gpu_bundle gpu_programs)
  endif()
  add_dependencies(gpu_programs ${name})
endfunction()
