// Redirects NCCL's NCCL_DEBUG output. By default NCCL writes it to standard output, mixed into what the program prints
// for others to parse.
#pragma once

#include <string>

namespace twofold::nccl {

// A value of NCCL_DEBUG_FILE that means the file open as `descriptor`; "" if there is none. NCCL opens the file anew
// and writes from its beginning. So for a regular file the value names another file beside it, FILE.nccl.HOST.PROCESS;
// otherwise both would overwrite each other's text.
std::string DebugFileOf(int descriptor);

// Points NCCL_DEBUG_FILE to standard error if NCCL_DEBUG is set and NCCL_DEBUG_FILE is not. Call before NCCL is loaded.
void SendDebugOutputToStandardError();

}  // namespace twofold::nccl
