// Where and how a service listens for remote jobs.
#pragma once

#include <chrono>
#include <string>

namespace batchflow::remote {

struct RemoteOptions {
  std::string address = "127.0.0.1";
  int port = -1;            // -1: the service does not listen; 0: any free port
  std::string token_file;   // a job that shows a token of this file may join
  std::string certificate;  // with a certificate and its key the service takes only TLS
  std::string key;
  std::chrono::milliseconds handshake_time{10'000};  // within which a token must be shown
  friend bool operator==(const RemoteOptions&, const RemoteOptions&) = default;
};

}  // namespace batchflow::remote
