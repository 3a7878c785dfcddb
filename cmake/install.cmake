# What `cmake --install` puts where, in three components: `program` (the program, its man pages and completions), `development` (the
# library below, its headers, and the package that find_package(Twofold) reads), `python` (python/CMakeLists.txt).
include(GNUInstallDirs)

# The target of users' projects. Each library is Twofold::NAME as well: twofold_nn is Twofold::nn.
add_library(twofold_library INTERFACE)
target_link_libraries(twofold_library INTERFACE twofold_core twofold_strategies twofold_backends twofold_topologies)
set_target_properties(twofold_library PROPERTIES EXPORT_NAME twofold)
add_library(Twofold::twofold ALIAS twofold_library)

get_property(TWOFOLD_LIBRARIES GLOBAL PROPERTY TWOFOLD_LIBRARIES)
foreach(library ${TWOFOLD_LIBRARIES})
  string(REGEX REPLACE "^twofold_" "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
  add_library(Twofold::${name} ALIAS ${library})
endforeach()
if(NOT PROJECT_IS_TOP_LEVEL)  # another project's own rules say what is installed
  return()
endif()
if(TWOFOLD_CUDA_MODE STREQUAL EMULATED)  # its headers stand in for CUDA's: for tests alone
  return()
endif()

include(CMakePackageConfigHelpers)
install(TARGETS twofold_library ${TWOFOLD_LIBRARIES} EXPORT Twofold
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)

# Sources include by paths from the root, "core/run/fabric.h"; these stay as they are below include/twofold.
foreach(folder core kernels/cpu kernels/cuda topologies sim backends strategies)
  foreach(root ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    if(IS_DIRECTORY ${root}/${folder})
      install(DIRECTORY ${root}/${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/twofold/${folder} COMPONENT development
              FILES_MATCHING PATTERN "*.h" PATTERN "CMakeFiles" EXCLUDE PATTERN "emulated" EXCLUDE)
    endif()
  endforeach()
endforeach()

# find_package(Twofold COMPONENTS ...): which of them this build has.
set(TWOFOLD_COMPONENTS core strategies)
foreach(component simulated mpi gloo nccl cuda)
  set(has_simulated ${TWOFOLD_HAVE_SIMGRID})
  set(has_mpi ${TWOFOLD_HAVE_MPI})
  set(has_gloo ${TWOFOLD_HAVE_GLOO})
  set(has_nccl ${TWOFOLD_HAVE_NCCL})
  set(has_cuda OFF)
  if(TWOFOLD_CUDA_MODE STREQUAL ON)
    set(has_cuda ON)
  endif()
  if(has_${component})
    list(APPEND TWOFOLD_COMPONENTS ${component})
  endif()
endforeach()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Twofold)
configure_package_config_file(cmake/TwofoldConfig.cmake.in ${PROJECT_BINARY_DIR}/TwofoldConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TwofoldConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TwofoldConfig.cmake ${PROJECT_BINARY_DIR}/TwofoldConfigVersion.cmake DESTINATION ${package} COMPONENT development)
install(EXPORT Twofold NAMESPACE Twofold:: FILE TwofoldTargets.cmake DESTINATION ${package} COMPONENT development)
install(DIRECTORY examples/own-project/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libtwofold-dev/own-project COMPONENT development)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/twofold/examples COMPONENT program FILES_MATCHING PATTERN "*.textproto" PATTERN "own-project" EXCLUDE PATTERN "lab" EXCLUDE)
