// A certificate for TLS on this machine.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "fmt/format.h"

namespace batchflow::test {

// A key and a certificate for 127.0.0.1; false where openssl is not installed.
inline bool make_certificate(const std::filesystem::path& folder) {
  const std::string command = fmt::format(
      "openssl req -x509 -newkey rsa:2048 -nodes -keyout {0}/key.pem -out {0}/cert.pem -days 2 "
      "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1,DNS:localhost >/dev/null 2>&1",
      folder.string());
  return std::system(command.c_str()) == 0;
}

}  // namespace batchflow::test
