#include "runtime/objects/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/objects/object_store.h"

namespace batchflow::objects {
namespace {

constexpr std::string_view kBetween = "://";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

// Nothing that could end a line of a request.
bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; });
}

std::string parse_endpoint(std::string_view text, bool tls, Endpoint& endpoint) {
  endpoint.tls = tls;
  endpoint.port = tls ? 443 : 80;
  std::string_view port;
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == std::string_view::npos) return "its host has no ']'";
  if (const std::size_t colon = text.find(':', bracket); colon != std::string_view::npos) {
    port = text.substr(colon + 1);
    text = text.substr(0, colon);
    const auto [end, error] =
        std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
    if (error != std::errc{} || end != port.data() + port.size() || endpoint.port == 0)
      return fmt::format("'{}' is no port", port);
  }
  if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
  endpoint.host = text;
  return text.empty() ? "it has no host" : "";
}

}  // namespace

bool is_url(std::string_view text) {
  return text.find(kBetween) != std::string_view::npos;
}

std::string Endpoint::host_header() const {
  const std::string name = host.find(':') == std::string::npos ? host : fmt::format("[{}]", host);
  return port == (tls ? 443 : 80) ? name : fmt::format("{}:{}", name, port);
}

std::string without_user(std::string_view text) {
  const std::size_t between = text.find(kBetween);
  const std::size_t from = between == std::string_view::npos ? 0 : between + kBetween.size();
  const std::string_view place = text.substr(from, text.find('/', from) - from);
  const std::size_t mark = place.rfind('@');
  if (mark == std::string_view::npos) return std::string(text);
  return fmt::format("{}...{}", text.substr(0, from), text.substr(from + mark));
}

std::string parse_url(std::string_view text, Url& url) {
  url = {};
  const std::size_t between = text.find(kBetween);
  if (between == std::string_view::npos) return "it is no URL";
  url.scheme = text.substr(0, between);
  std::string_view rest = text.substr(between + kBetween.size());
  if (has_control(url.scheme) || rest.find('\0') != std::string_view::npos)
    return "it has characters that are in no URL";
  const std::string_view place = rest.substr(0, rest.find('/'));
  rest.remove_prefix(std::min(rest.size(), place.size() + 1));
  if (url.scheme == "s3" || url.scheme == "gs") {
    const bool plain = !place.empty() && std::all_of(place.begin(), place.end(), is_plain);
    if (!plain) return fmt::format("'{}' is no name of a bucket", without_user(place));
    url.bucket = place;
    url.path = rest;
    return "";
  }
  if (url.scheme != "http" && url.scheme != "https")
    return fmt::format("nothing reads {}://; write s3://, gs://, https://, http:// or a path",
                       url.scheme);
  if (has_control(rest) || has_control(place)) return "it has characters that are in no URL";
  if (place.find('@') != std::string_view::npos)
    return "it has a user's name in it, which would be in every log; leave it out";
  url.path = rest.substr(0, rest.find_first_of("?#"));
  if (const std::size_t mark = rest.find('?'); mark != std::string_view::npos)
    url.query = rest.substr(mark + 1, rest.find('#') - mark - 1);
  return parse_endpoint(place, url.scheme == "https", url.endpoint);
}

std::string percent_encoded(std::string_view text, bool keeps_slashes) {
  std::string out;
  for (const char c : text) {
    if (is_plain(c) || (c == '/' && keeps_slashes)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_value(text[i + 2]) : -1;
    if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string query_text(Query query) {
  for (auto& [name, value] : query) {
    name = percent_encoded(name, false);
    value = percent_encoded(value, false);
  }
  std::sort(query.begin(), query.end());
  std::string text;
  for (const auto& [name, value] : query)
    text += fmt::format("{}{}={}", text.empty() ? "" : "&", name, value);
  return text;
}

}  // namespace batchflow::objects
