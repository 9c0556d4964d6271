#include "runtime/remote/remote_options.h"

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/secret_file.h"

namespace batchflow::remote {
namespace {

constexpr std::size_t kTokenLeast = 32;
constexpr std::size_t kTokensMost = 1024;
constexpr std::size_t kFileMost = 4 << 20;  // with what is said beside them

}  // namespace

std::string token_message(std::string_view token, std::string_view as, std::string_view feed) {
  nlohmann::json message{{"type", "token"}, {"token", token}};
  if (!as.empty()) message["as"] = as;
  if (!feed.empty()) message["feed"] = feed;
  return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string read_tokens(const std::string& file, std::vector<std::string>& tokens) {
  tokens.clear();
  if (BF_FAILPOINT("remote.token.read")) return fmt::format("{}: {}", file, std::strerror(EMFILE));
  protocol::SecretFile secret;
  if (const std::string problem =
          protocol::read_secret_file(file, "a file of tokens", kFileMost, secret);
      !problem.empty())
    return problem;
  std::istringstream in(std::move(secret.text));
  for (std::string line; tokens.size() < kTokensMost && std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    if (line.size() < kTokenLeast || line.size() > 1024)
      return fmt::format("{}: a token has {} to 1024 characters; `openssl rand -hex 32` makes one",
                         file, kTokenLeast);
    tokens.push_back(line);
  }
  return tokens.empty() ? fmt::format("{}: holds no token; `openssl rand -hex 32` makes one", file)
                        : "";
}

}  // namespace batchflow::remote
