// Where and how a service listens for remote jobs, and the tokens by which they may join. A remote
// job gets a token from the service's operator, in a file, and shows it before anything else.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

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

// Reads a file with a token on each line. Answers what is wrong: there is none, one is too short,
// or others than its owner can read the file. Empty: nothing.
std::string read_tokens(const std::string& file, std::vector<std::string>& tokens);
std::string token_message(std::string_view token);

}  // namespace batchflow::remote
