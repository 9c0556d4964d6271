// URLs, and how paths and values are written in them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace batchflow::objects {

// Where requests go.
struct Endpoint {
  bool tls = false;
  std::string host;
  std::uint16_t port = 0;
  // As in the header `Host`: the port is left out where it is the usual one.
  std::string host_header() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

struct Url {
  std::string scheme;  // s3, gs, http, https
  Endpoint endpoint;   // of http and https
  std::string bucket;  // of s3 and gs
  std::string path;    // decoded for s3 and gs, as given for http; without the first slash
  std::string query;   // of http, as given
};
// The text as it may be logged: without a user's name and password before the host.
std::string without_user(std::string_view text);
// Answers what is wrong; empty: nothing.
std::string parse_url(std::string_view text, Url& url);

// Percent-encodes all but letters, digits and -_.~; a slash too unless `keeps_slashes`.
std::string percent_encoded(std::string_view text, bool keeps_slashes);
std::string percent_decoded(std::string_view text);
using Query = std::vector<std::pair<std::string, std::string>>;
// `a=b&c=d` in ascending order, encoded.
std::string query_text(Query query);

}  // namespace batchflow::objects
