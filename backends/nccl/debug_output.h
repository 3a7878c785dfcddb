// Where NCCL writes what NCCL_DEBUG asks for: by itself to standard output, amid what the program prints for others to read.
#pragma once

#include <string>

namespace twofold::nccl {

// A value of NCCL_DEBUG_FILE that means what is open as `descriptor`, "" where there is none. NCCL opens the file anew, to write from its
// beginning, so that of a regular file it is another one beside it, FILE.nccl.HOST.PROCESS: both would write over each other's text.
std::string DebugFileOf(int descriptor);

// Sets NCCL_DEBUG_FILE to standard error's where NCCL_DEBUG is set and NCCL_DEBUG_FILE is not. To be called before NCCL is loaded.
void SendDebugOutputToStandardError();

}  // namespace twofold::nccl
