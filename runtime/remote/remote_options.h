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
  // A process that shows a token of this file may join the cluster as a node, and is told and may
  // ask for everything. Empty: none may.
  std::string cluster_token_file;
  bool feeds = false;  // producers that show a token of token_file may send records to feeds
  std::chrono::milliseconds handshake_time{10'000};  // within which a token must be shown
  friend bool operator==(const RemoteOptions&, const RemoteOptions&) = default;
};

// Reads a file with a token on each line. Answers what is wrong: there is none, one is too short,
// or others than its owner can read the file. Empty: nothing.
std::string read_tokens(const std::string& file, std::vector<std::string>& tokens);
// What a connection is for, if not for a rank of a job. An agent reaches its coordinator, a node
// asks a peer for blocks and samples, a producer sends to a feed, or an agent forwards a producer.
inline constexpr std::string_view kAgent = "agent", kPeer = "peer", kProducer = "producer",
                                  kForwarded = "forwarded";
// `as` is empty for a rank of a job; `feed` names the feed of a producer.
std::string token_message(std::string_view token, std::string_view as = {},
                          std::string_view feed = {});

}  // namespace batchflow::remote
