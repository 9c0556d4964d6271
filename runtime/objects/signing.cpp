#include "runtime/objects/signing.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace batchflow::objects {
namespace {

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto value = static_cast<unsigned char>(c);
    text += {kDigits[value >> 4], kDigits[value & 15]};
  }
  return text;
}

std::string sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &bytes, EVP_sha256(), nullptr);
  return {reinterpret_cast<const char*>(digest.data()), bytes};
}

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &bytes);
  return {reinterpret_cast<const char*>(digest.data()), bytes};
}

}  // namespace

void sign(HttpRequest& request, std::string_view host, const Keys& keys, std::string_view region,
          std::string_view service, Calendar::time_point at) {
  const std::tm time = fmt::gmtime(Calendar::to_time_t(at));
  const std::string stamp = fmt::format("{:%Y%m%dT%H%M%SZ}", time);
  const std::string day = stamp.substr(0, 8);
  static const std::string of_body = hex(sha256(""));
  std::vector<std::pair<std::string, std::string>> signed_headers{
      {"host", std::string(host)}, {"x-amz-content-sha256", of_body}, {"x-amz-date", stamp}};
  if (!keys.token.empty()) signed_headers.emplace_back("x-amz-security-token", keys.token);
  std::string lines, names;
  for (const auto& [name, value] : signed_headers) {
    lines += fmt::format("{}:{}\n", name, value);
    names += (names.empty() ? "" : ";") + name;
    if (name != "host") request.headers.emplace_back(name, value);
  }
  const std::size_t mark = std::min(request.target.find('?'), request.target.size());
  const std::string_view query =
      std::string_view(request.target).substr(std::min(mark + 1, request.target.size()));
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.target.substr(0, mark), query,
                  lines, names, of_body);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", day, region, service);
  const std::string text =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", stamp, scope, hex(sha256(canonical)));
  std::string key = hmac("AWS4" + keys.secret, day);
  for (const std::string_view part : {region, service, std::string_view("aws4_request")})
    key = hmac(key, part);
  request.headers.emplace_back(
      "Authorization",
      fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", keys.id,
                  scope, names, hex(hmac(key, text))));
}

}  // namespace batchflow::objects
