// `twofold bench OPERATION [-b 8 -e 64M -f 2] [--fabric=F] [--cluster=C] [--ranks=N] ...`: the table that nccl-tests users
// know, on any fabric.
//
// Options, columns, sizes and bus bandwidths are those of nccl-tests (github.com/NVIDIA/nccl-tests). What differs, the
// table says in its first lines:
//   * each call is waited for before the next, as with nccl-tests' --blocking 1;
//   * a process group of ours works on one tensor in all_reduce, broadcast and reduce: those have in-place columns alone.
//     gather, scatter, all_to_all and send_recv keep input and output apart: out-of-place columns alone;
//   * sizes are rounded down to whole elements on every rank, not to 16 bytes; those that hold none are left out;
//   * on a fabric that predicts, time is virtual and the same in every run, so that one call without warm-up is enough,
//     and its time is until the last rank is done, to which the mean over ranks tends in a loop;
//     data does not exist, so that nothing is checked and sizes may exceed this machine.
// The whole sweep is one run of the fabric; rows are printed when it has ended, and when it failed, those that were done.
//
// Without --ranks: as many as processes were started where ranks are processes (mpirun); all devices of --nodes on
// simulated, 8 or what the cluster holds without that; else 2.
#pragma once

#include "experiments/program/cli/command_line.h"

namespace twofold {

// Adds the command to `app`. When it runs it prints the table to stdout, in the process that speaks, and progress to stderr
// where that is a terminal, and sets `exit_status`: 0 fine, 1 a failure at run time or wrong values, 2 wrong input.
void AddBenchCommand(const Command& program, int& exit_status);

}  // namespace twofold
