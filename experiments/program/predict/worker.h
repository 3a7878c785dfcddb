// A process of a Predictor: answers requests, one after another.
#pragma once

namespace twofold::prediction {

inline constexpr char kGreeting[] = "twofold predicts, 1";
// The socket that a process is started with.
inline constexpr int kSocket = 3;

// Answers until the predictor closes the socket. Returns the process's exit status.
int Serve(int socket);

}  // namespace twofold::prediction
