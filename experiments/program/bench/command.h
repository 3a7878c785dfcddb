// `twofold bench OPERATION [-b 8 -e 64M -f 2] [--fabric=F] [--cluster=C] [--ranks=N] ...`: the table of nccl-tests, on
// any fabric.
//
// Options, columns, sizes and bus bandwidths are those of nccl-tests (github.com/NVIDIA/nccl-tests). The first lines of
// the table state the differences:
//   * at most eight calls are in flight, two of large ones; with --wait each is waited for before the next, as with
//     nccl-tests' --blocking 1;
//   * our all_reduce, broadcast and reduce work on one tensor, so they have in-place columns only. gather, scatter,
//     all_to_all and send_recv keep input and output apart, so they have out-of-place columns only;
//   * sizes are rounded down to whole elements on every rank, not to 16 bytes; sizes that hold no element are left out;
//   * on a fabric that predicts, time is virtual and the same in every run, so one call without warm-up is enough (20
//     of broadcast and reduce, of which successive calls overlap). Its time ends when the last rank is done; the mean
//     over ranks tends to that time in a loop. There is no data, so
//     nothing is checked and sizes may exceed this machine's memory.
// The whole sweep is one run of the fabric. Rows are printed when it has ended. If it fails, the finished rows are
// printed.
//
// Default of --ranks: the number of started processes if ranks are processes (mpirun); on simulated all devices of
// --nodes, or without --nodes 8 or the cluster's size if that is smaller; else 2.
#pragma once

#include "experiments/program/cli/command_line.h"

namespace twofold {

// Adds the command to `app`. It prints the table to stdout, in the process that prints for the job, and progress to
// stderr if that is a terminal. It sets `exit_status`: 0 success, 1 a failure at run time or wrong values, 2 wrong
// input.
void AddBenchCommand(const Command& program, int& exit_status);

}  // namespace twofold
