// The part of NCCL that Twofold uses, between processes of one host and between threads of one process, whose GPUs are
// emulated (kernels/cuda/emulated/cuda_runtime.h). Names, numbers and signatures are NCCL's (2.28).
//
//   Communicators  have up to 32 ranks, which meet in shared memory held by the maker of the unique id: once it has
//                  ended, further ranks get ncclSystemError. GPU i of one process is GPU i of another. Two ranks on one
//                  GPU are refused ("Duplicate GPU detected", ncclInvalidUsage), as before NCCL 2.30, whose
//                  NCCL_MULTI_RANK_GPU_ENABLE=1 allows it.
//   Operations     are enqueued on their streams, in order, and work on GPU memory, whose bounds are checked. A rank's
//                  part ends when it is done: a send when it was received, a collective no sooner than all ranks have
//                  reached it. Nothing is buffered: two ranks that each send before they receive wait forever. The
//                  first message of a pair (each way), and the first collective of each function below 64 KiB and from
//                  64 KiB on, block the host until the peers have called theirs, as NCCL does to connect them (with
//                  NCCL_RUNTIME_CONNECT=0 collectives connect at the start).
//   Groups         start at ncclGroupEnd: all of a communicator's operations as one, one communicator after another.
//                  The collectives of a group run one after another. Its messages run concurrently, but those of one
//                  pair in order.
//   Reductions     round to the type at every rank, in the order of a ring: element block b of n from rank b + 1 to
//                  rank b (blocks of ceil(count / n)); for ncclReduce from root + 1 to root. ncclAvg of floats
//                  multiplies first.
//   Mismatches     (operation, type, count, root, reduction, number of collectives in the group) wait forever and are
//                  reported; NCCL may instead produce garbage.
//   Lost peers     are waited for, as over NCCL's shared memory.
//   Non-blocking   communicators (config.blocking = 0) return ncclInProgress from every call that takes part in
//                  communication, and do the work a little later. Other calls are refused until ncclCommGetAsyncError
//                  has returned ncclSuccess.
//
// Misuse is reported on stderr ("emulated NCCL: rank 1 of ...") and counted (twofold::emulated::NcclReports):
// mismatches; concurrent calls of two threads; concurrent operations on two streams; use of freed memory; split or
// destruction of a communicator with outstanding work.
// Environment:
//   TWOFOLD_EMULATED_NCCL_VERSION=22809       the result of ncclGetVersion
//   TWOFOLD_EMULATED_NCCL_LOST_PEERS=ERROR    ncclCommGetAsyncError returns ncclRemoteError once a peer's process has
//                                             ended (WAIT: it does not)
//
// Not emulated: the network, windows, registration, fp8, custom reductions, shrink, any timing.
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cstddef>

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)

#define NCCL_COMM_NULL nullptr
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR nullptr
#define NCCL_SPLIT_NOCOLOR -1

extern "C" {

typedef struct ncclComm* ncclComm_t;
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8,
} ncclResult_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4, ncclNumOps = 5 } ncclRedOp_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12,
} ncclDataType_t;

// Only `blocking` has an effect; `commName` appears in reports.
typedef struct {
  size_t size;
  unsigned int magic, version;
  int blocking;
  int cgaClusterSize, minCTAs, maxCTAs;
  const char* netName;
  int splitShare, trafficClass;
  const char* commName;
  int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched;
} ncclConfig_t;
#define NCCL_CONFIG_MAGIC 0xcafebeef
#define NCCL_CONFIG_INITIALIZER                                                                               \
  {                                                                                                           \
    sizeof(ncclConfig_t), NCCL_CONFIG_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,           \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,           \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,           \
  }

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);  // of the calling thread's last failed call; valid until its next one

// ---- Communicators ----

ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);  // completes when all ranks have called it
ncclResult_t ncclCommDestroy(ncclComm_t comm);   // finalizes first if necessary
ncclResult_t ncclCommAbort(ncclComm_t comm);     // from any thread; waits in streams and in calls end
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);  // from any thread
ncclResult_t ncclCommCount(ncclComm_t comm, int* count);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);

// ---- Operations ----

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclAllGather(const void* from, void* to, size_t from_count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t to_count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAlltoAll(const void* from, void* to, size_t count_for_each, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream);
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);

ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();

}  // extern "C"

namespace twofold::emulated {

// The number of reports of misuse in this process.
int NcclReports();

}  // namespace twofold::emulated
