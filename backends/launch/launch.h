// How this process was started: alone, or as one of several, by whom, and what the launcher said about the others.
//
// Launchers set variables. Of those that are there, the first here counts (so an mpirun within a rank of `twofold launch` or of
// torchrun is not seen: unset TWOFOLD_LAUNCHER or TORCHELASTIC_RUN_ID there):
//
//   who starts                variables                                                       rank 0 is met at
//   torchrun, twofold launch  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, and              MASTER_ADDR, MASTER_PORT
//                             TORCHELASTIC_RUN_ID or TWOFOLD_LAUNCHER, which mark them
//   Open MPI's mpirun         OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE            (MPI); MASTER_ADDR; this host, if all are here
//   srun --mpi=pmix           PMIX_RANK, and the step's, below                                 (MPI); as with plain srun
//   PMI (MPICH's mpiexec,     PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS; under      (MPI); MASTER_ADDR; under Slurm as with
//   srun --mpi=pmi2)          Slurm the step's, below                                          plain srun
//   a cloud, a script         RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE; or NODE_RANK     MASTER_ADDR, MASTER_PORT
//                             (GROUP_RANK) instead of RANK
//   plain srun                SLURM_PROCID, SLURM_STEP_NUM_TASKS (SLURM_NTASKS),               MASTER_ADDR, or the first node of
//                             SLURM_LOCALID, SLURM_STEP_NODELIST, in a step of several tasks   SLURM_STEP_NODELIST; MASTER_PORT, or
//                                                                                              one made of SLURM_JOB_ID and the step
//
// WORLD_SIZE counts processes, all nodes together. torchrun with TORCHELASTIC_USE_AGENT_STORE=True serves MASTER_PORT itself: rank
// 0 then listens at MASTER_PORT + 1. fabric.rendezvous (core/proto/spec.proto) goes before all of this.
#pragma once

#include <functional>
#include <string>

namespace twofold {

struct Launch {
  bool launched = false;
  bool by_mpi = false;   // by what MPI_Init understands: Open MPI's mpirun, PMIx, PMI
  std::string launcher;  // "Open MPI's mpirun", "Slurm's srun"; for messages and notes
  int rank = 0, size = 1;
  // What the launcher does not say is -1, 0 or empty.
  int local_rank = -1, local_size = 0;  // among the processes of this host
  int node = -1, nodes = 0;
  std::string master_address;  // of the host where rank 0 is; a name, or an address in numbers
  int master_port = 0;         // where rank 0 is to listen
  // What all processes of this run know and others do not: TWOFOLD_JOB_TOKEN, or a text made of the job's id, which keeps jobs apart
  // but is no secret; "" where there is neither. Must not be printed, logged or written to a file.
  std::string token;
  // Variables that are missing, wrong or contradict each other: which, its value, what would be right. The process then counts as
  // alone; a fabric whose ranks are processes refuses to run.
  std::string error;
};

// The value of a variable; null: not set.
using Variables = std::function<const char*(const char* name)>;
Launch LaunchFrom(const Variables& variables);
Launch LaunchedAs();  // by this process's environment

// Of several processes that all found the same to be wrong, one says so: true for it, at once. The others get false, a second
// later, since launchers end all with the first that ends.
bool SaysWhatAllFound();

}  // namespace twofold
