// How this process was started: alone or as one of several, by which launcher, and what the launcher said about the
// other processes.
//
// Launchers set environment variables. If several launchers' variables are set, the first row of this table that
// matches wins. (So an mpirun within a rank of `twofold launch` or of torchrun is not seen unless TWOFOLD_LAUNCHER or
// TORCHELASTIC_RUN_ID is unset.)
//
//   who starts                variables                                               rank 0 is met at
//   torchrun, twofold launch  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, and      MASTER_ADDR, MASTER_PORT
//                             TORCHELASTIC_RUN_ID or TWOFOLD_LAUNCHER, which mark them
//   Open MPI's mpirun         OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE   (MPI); MASTER_ADDR; this host,
//                                                                                     if all are here
//   srun --mpi=pmix           PMIX_RANK, and the step's, below                        (MPI); as with plain srun
//   PMI (MPICH's mpiexec,     PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS;   (MPI); MASTER_ADDR; under Slurm
//   srun --mpi=pmi2)          under Slurm the step's, below                           as with plain srun
//   a cloud, a script         RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE; or      MASTER_ADDR, MASTER_PORT
//                             NODE_RANK (GROUP_RANK) instead of RANK
//   plain srun                SLURM_PROCID, SLURM_STEP_NUM_TASKS (SLURM_NTASKS),      MASTER_ADDR, or the first node of
//                             SLURM_LOCALID, SLURM_STEP_NODELIST, in a step of        SLURM_STEP_NODELIST; MASTER_PORT,
//                             several tasks                                           or one made of SLURM_JOB_ID and
//                                                                                     the step
//
// WORLD_SIZE counts the processes of all nodes. torchrun with TORCHELASTIC_USE_AGENT_STORE=True serves MASTER_PORT
// itself, so rank 0 then listens at MASTER_PORT + 1. A process with TWOFOLD_JOIN=1 joins the run that the other
// variables describe, and replaces nobody. fabric.rendezvous (core/proto/spec.proto) overrides all of this.
#pragma once

#include <functional>
#include <string>

namespace twofold {

struct Launch {
  bool launched = false;
  bool by_mpi = false;   // by a launcher that MPI_Init understands: Open MPI's mpirun, PMIx, PMI
  std::string launcher;  // "Open MPI's mpirun", "Slurm's srun"; for messages and notes
  int rank = 0, size = 1;
  bool newcomer = false;  // TWOFOLD_JOIN is set: it joins a run in progress (train.elastic), and has no rank
  // Fields the launcher does not set are -1, 0 or empty.
  int local_rank = -1, local_size = 0;  // among the processes of this host
  int node = -1, nodes = 0;
  std::string master_address;  // rank 0's host: a name or a numeric address
  int master_port = 0;         // the port where rank 0 listens
  // A token that all processes of this run know and others do not: TWOFOLD_JOB_TOKEN, or a text made from the job's id,
  // which keeps jobs apart but is no secret; "" if there is neither. Must not be printed, logged or written to a file.
  std::string token;
  // If variables are missing, wrong or contradictory: the variable, its value and a correct one. The process is then
  // treated as alone, and a fabric whose ranks are processes refuses to run.
  std::string error;
};

// Returns the value of an environment variable; null if not set.
using Variables = std::function<const char*(const char* name)>;
Launch LaunchFrom(const Variables& variables);
Launch LaunchedAs();  // from this process's environment

// Lets one of several processes that all found the same error report it. Returns true at once in that process. Returns
// false in the others, a second later, because launchers end all processes when the first one ends.
bool SaysWhatAllFound();

}  // namespace twofold
