// Settings that both ends of a call to the store share.
#pragma once

#include <grpc/grpc.h>

#include <array>
#include <utility>

namespace twofold::rendezvous {

inline constexpr char kTokenName[] = "twofold-job-token-bin";  // "-bin": the value may be any bytes
inline constexpr int kMostBytes = 1 << 28;                     // of a message

// Either end pings the other after this much silence, and waits as long for the answer.
inline constexpr int kSilenceMs = 10000;
inline std::array<std::pair<const char*, int>, 4> KeepAlive() {
  return {{{GRPC_ARG_KEEPALIVE_TIME_MS, kSilenceMs},
           {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kSilenceMs},
           {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},  // no limit
           {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kSilenceMs / 2}}};
}

}  // namespace twofold::rendezvous
