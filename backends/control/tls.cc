#include "backends/control/tls.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

std::string Field(const char* name, const std::string& file) {
  return StrCat("fabric.rendezvous.tls.", name, ": \"", file, "\"");
}

absl::StatusOr<std::string> Read(const char* name, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.good() && !in.eof()) return InvalidArgument(Field(name, file), " cannot be read: ", std::strerror(errno));
  return text;
}

Bio Open(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// No key asks for a password on the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

absl::StatusOr<Certificate> ParseCertificate(const char* name, const std::string& file, const std::string& text) {
  Certificate parsed(PEM_read_bio_X509(Open(text).get(), nullptr, NoPassword, nullptr));
  if (parsed == nullptr)
    return InvalidArgument(Field(name, file), " holds no certificate in PEM (\"-----BEGIN CERTIFICATE-----\")");
  return parsed;
}

// Why `authority` does not stand behind `certificate`; "" if it does.
std::string WhyNotSigned(X509* certificate, X509* authority) {
  const std::unique_ptr<X509_STORE, Freed<X509_STORE_free>> store(X509_STORE_new());
  const std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>> context(X509_STORE_CTX_new());
  X509_STORE_add_cert(store.get(), authority);
  X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr);
  if (X509_verify_cert(context.get()) == 1) return "";
  return X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
}

}  // namespace

absl::StatusOr<Tls> ReadTls(const std::string& certificate, const std::string& key, const std::string& authority) {
  Tls tls;
  const struct {
    const char* name;
    const std::string& file;
    std::string& text;
  } files[] = {
      {"certificate", certificate, tls.certificate}, {"key", key, tls.key}, {"authority", authority, tls.authority}};
  for (const auto& [name, file, text] : files) {
    if (file.empty()) return InvalidArgument("fabric.rendezvous.tls.", name, " is missing: it names a PEM file");
    absl::StatusOr<std::string> read = Read(name, file);
    if (!read.ok()) return read.status();
    text = *std::move(read);
  }
  const auto own = ParseCertificate("certificate", certificate, tls.certificate);
  if (!own.ok()) return own.status();
  const auto root = ParseCertificate("authority", authority, tls.authority);
  if (!root.ok()) return root.status();
  const Key parsed(PEM_read_bio_PrivateKey(Open(tls.key).get(), nullptr, NoPassword, nullptr));
  if (parsed == nullptr) {
    return InvalidArgument(Field("key", key),
                           " holds no private key in PEM without a password (\"-----BEGIN PRIVATE KEY-----\")");
  }
  if (X509_check_private_key(own->get(), parsed.get()) != 1)
    return InvalidArgument(Field("key", key), " is not the key of the certificate \"", certificate, "\"");
  if (const std::string why = WhyNotSigned(own->get(), root->get()); !why.empty()) {
    return InvalidArgument(Field("certificate", certificate), " is not valid under the authority \"", authority,
                           "\": ", why);
  }
  return tls;
}

}  // namespace twofold::control
