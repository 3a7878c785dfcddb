// How this process was started: alone, or as one of several by mpirun, srun or the like.
#pragma once

namespace twofold {

struct Launch {
  bool launched = false;
  int rank = 0, size = 1;
};
// From the variables that launchers set: Open MPI's mpirun, PMIx and PMI launchers, Slurm's srun.
Launch LaunchedAs();

}  // namespace twofold
