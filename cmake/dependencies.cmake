# Debian 12 packages; scripts/setup.sh installs them.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)  # checksums of checkpoints
if(TWOFOLD_TESTS)
  find_package(GTest REQUIRED)
endif()
find_package(ZLIB REQUIRED)  # tables of measurements
find_package(SQLite3 REQUIRED)  # what Nsight Systems exports
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)  # the desk's server
pkg_check_modules(LIBXML2 REQUIRED IMPORTED_TARGET libxml-2.0)  # what NCCL and SimGrid write

# A simulation spends its time in many small objects: with mimalloc it takes 0.6 to 0.8 of the time. Sanitizers have allocators
# of their own.
option(TWOFOLD_WITH_MIMALLOC "Link the program with mimalloc where it is found" ON)
if(TWOFOLD_WITH_MIMALLOC AND NOT TWOFOLD_SANITIZE)
  find_package(mimalloc QUIET)
endif()

# Asio is a library of headers: names and sockets of the control plane, signals of the launcher.
find_path(ASIO_INCLUDE asio.hpp REQUIRED)
add_library(asio INTERFACE)
target_include_directories(asio SYSTEM INTERFACE ${ASIO_INCLUDE})
set_property(GLOBAL APPEND PROPERTY TWOFOLD_LIBRARIES asio)
# Whether it finds aligned_alloc depends on what was included before, and so do its inline functions: without, all files have the same.
target_compile_definitions(asio INTERFACE ASIO_NO_DEPRECATED ASIO_DISABLE_STD_ALIGNED_ALLOC)

# Open MPI carries the mpi fabric. Without it, everything else is built.
option(TWOFOLD_WITH_MPI "Build the MPI fabric where MPI is found" ON)
if(TWOFOLD_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI COMPONENTS CXX)
endif()
if(MPI_CXX_FOUND)
  set(TWOFOLD_HAVE_MPI ON)
  message(STATUS "Fabric mpi: yes (${MPI_CXX_LIBRARIES})")
else()
  set(TWOFOLD_HAVE_MPI OFF)
  message(STATUS "Fabric mpi: no (libopenmpi-dev not found, or TWOFOLD_WITH_MPI is off)")
endif()

# Gloo carries the gloo fabric. Without it, everything else is built.
option(TWOFOLD_WITH_GLOO "Build the Gloo fabric where Gloo is found" ON)
find_library(GLOO_LIBRARY gloo)
find_path(GLOO_INCLUDE gloo/context.h)
if(TWOFOLD_WITH_GLOO AND GLOO_LIBRARY AND GLOO_INCLUDE)
  set(TWOFOLD_HAVE_GLOO ON)
  message(STATUS "Fabric gloo: yes (${GLOO_LIBRARY})")
else()
  set(TWOFOLD_HAVE_GLOO OFF)
  message(STATUS "Fabric gloo: no (libgloo-dev not found, or TWOFOLD_WITH_GLOO is off)")
endif()

# gRPC carries the control plane of runs of several processes. Without it, everything else is built, and a run has one process. Debian's
# was built without the thread sanitizer, which sees races in it.
option(TWOFOLD_WITH_GRPC "Build the control plane of several processes where gRPC is found" ON)
if(TWOFOLD_WITH_GRPC AND NOT TWOFOLD_SANITIZE MATCHES thread)
  find_package(gRPC CONFIG QUIET)
endif()
if(gRPC_FOUND AND TARGET gRPC::grpc++ AND TARGET gRPC::grpc_cpp_plugin)
  set(TWOFOLD_HAVE_GRPC ON)
  message(STATUS "Control plane of several processes: yes (gRPC ${gRPC_VERSION})")
else()
  set(TWOFOLD_HAVE_GRPC OFF)
  message(STATUS "Control plane of several processes: no (libgrpc++-dev or protobuf-compiler-grpc not found, TWOFOLD_WITH_GRPC is off, or the thread sanitizer is on)")
endif()

# SimGrid carries the simulated fabric. Without it, everything else is built.
option(TWOFOLD_WITH_SIMGRID "Build the simulated fabric where SimGrid is found" ON)
find_library(SIMGRID_LIBRARY simgrid)
find_path(SIMGRID_INCLUDE simgrid/s4u.hpp)
if(TWOFOLD_WITH_SIMGRID AND SIMGRID_LIBRARY AND SIMGRID_INCLUDE)
  set(TWOFOLD_HAVE_SIMGRID ON)
  add_library(simgrid_imported INTERFACE)
  set_property(GLOBAL APPEND PROPERTY TWOFOLD_LIBRARIES simgrid_imported)
  target_include_directories(simgrid_imported SYSTEM INTERFACE ${SIMGRID_INCLUDE})
  # libsimgrid has an MPI of its own (SMPI) under the same names: whoever links it must see the real one first.
  target_link_libraries(simgrid_imported INTERFACE $<$<BOOL:${TWOFOLD_HAVE_MPI}>:MPI::MPI_CXX> ${SIMGRID_LIBRARY})
  message(STATUS "Fabric simulated: yes (${SIMGRID_LIBRARY})")
else()
  set(TWOFOLD_HAVE_SIMGRID OFF)
  message(STATUS "Fabric simulated: no (libsimgrid-dev not found, or TWOFOLD_WITH_SIMGRID is off)")
endif()
message(STATUS "Fabric in_memory: yes")
