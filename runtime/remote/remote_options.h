// Where and how a service listens for remote jobs.
#pragma once

#include <chrono>
#include <string>

namespace batchflow {

struct RemoteOptions {
  std::string address = "127.0.0.1";
  int port = -1;            // -1: nobody listens; 0: one that is free
  std::string token_file;   // who knows one of these may come
  std::string certificate;  // with it and its key by TLS alone
  std::string key;
  std::chrono::milliseconds handshake_time{10'000};  // in which a token must have been shown
  friend bool operator==(const RemoteOptions&, const RemoteOptions&) = default;
};

}  // namespace batchflow
