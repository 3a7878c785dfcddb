// Certificates, by which the processes of a job recognise each other, and with which they encrypt.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace twofold::control {

// Contents of PEM files; all empty: no TLS. Each side shows `certificate` and accepts certificates that `authority` has
// signed. Host names are not compared: processes find each other by addresses, which certificates seldom name.
struct Tls {
  std::string certificate, key, authority;
  bool on() const { return !certificate.empty(); }
};

// Reads the files. INVALID_ARGUMENT, naming the field of the spec and the file: one is missing, is not PEM of its kind,
// the key is not the certificate's, or the authority has not signed it.
absl::StatusOr<Tls> ReadTls(const std::string& certificate, const std::string& key, const std::string& authority);

}  // namespace twofold::control
