#include "experiments/program/predict/frames.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/bytes.h"

namespace twofold::prediction {
namespace {

absl::Status HasGone(const char* why) { return absl::UnavailableError(StrCat("the other process has gone: ", why)); }

absl::Status SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return HasGone(std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(int fd, char* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = recv(fd, to + done, size - done, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return HasGone(n == 0 ? "it has closed its socket" : std::strerror(errno));
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Send(int fd, const google::protobuf::MessageLite& message) {
  absl::StatusOr<std::string> bytes = ToBytes(message, "a prediction");
  if (!bytes.ok()) return bytes.status();
  const uint64_t size = bytes->size();
  return SendAll(fd, bytes->insert(0, reinterpret_cast<const char*>(&size), sizeof size));
}

absl::Status Receive(int fd, google::protobuf::MessageLite& message) {
  uint64_t size = 0;
  if (absl::Status s = ReceiveAll(fd, reinterpret_cast<char*>(&size), sizeof size); !s.ok()) return s;
  if (size > kMostMessageBytes) return Internal("a prediction of ", size, " bytes cannot be");
  std::string bytes(size, '\0');
  if (absl::Status s = ReceiveAll(fd, bytes.data(), bytes.size()); !s.ok()) return s;
  return FromBytes(bytes, "a prediction", message);
}

}  // namespace twofold::prediction
