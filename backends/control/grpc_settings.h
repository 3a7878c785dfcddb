// What both ends of a call over gRPC share.
#pragma once

#include <grpc/grpc.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <memory>

#include "backends/control/tls.h"

namespace twofold::control {

inline constexpr char kTokenName[] = "twofold-job-token-bin";  // "-bin": the value may be any bytes
inline constexpr int kMostBytes = 1 << 30;                     // of a message

// Both sides show a certificate, and check that the job's authority has signed the other's.
template <class Options>
void Identify(Options& options) {
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
}
inline std::shared_ptr<grpc::experimental::CertificateProviderInterface> ProviderOf(const Tls& tls) {
  return std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
      tls.authority, std::vector<grpc::experimental::IdentityKeyCertPair>{
                         {.private_key = tls.key, .certificate_chain = tls.certificate}});
}

}  // namespace twofold::control
