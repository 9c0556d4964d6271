#include "policies/plugin/certificate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdio>
#include <memory>
#include <span>

#include "core/base/config_value.h"
#include "nlohmann/json.hpp"
#include "policies/plugin/sha256.h"

#ifdef BATCHFLOW_OPENSSL
#include <openssl/evp.h>
#include <openssl/pem.h>
#endif

namespace batchflow::plugin {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kTextMost = std::size_t{4} << 20;
constexpr std::string_view kMark = "signature ";

struct Closing {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closing>;

File open_file(const fs::path& path) {
  File file(std::fopen(path.c_str(), "rbe"));
  if (!file) throw ConfigError(fmt::format("{}: it cannot be read", path.string()));
  return file;
}

std::string read_text(const fs::path& path) {
  const File file = open_file(path);
  std::string text(kTextMost + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (text.size() > kTextMost)
    throw ConfigError(fmt::format("{}: it is too long for a certificate", path.string()));
  return text;
}

#ifdef BATCHFLOW_OPENSSL

struct Freeing {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Freeing>;
using Context = std::unique_ptr<EVP_MD_CTX, Freeing>;

Key checked(EVP_PKEY* read, const fs::path& path, const char* what) {
  Key key(read);
  if (!key || EVP_PKEY_id(key.get()) != EVP_PKEY_ED25519) {
    throw ConfigError(
        fmt::format("{}: it is no {} key of ed25519 in PEM; make one by openssl genpkey -algorithm "
                    "ed25519 -out key.pem, and its public key by openssl pkey -in key.pem -pubout",
                    path.string(), what));
  }
  return key;
}

// No password is asked for.
int no_password(char*, int, int, void*) {
  return -1;
}
Key private_key(const fs::path& path) {
  return checked(PEM_read_PrivateKey(open_file(path).get(), nullptr, &no_password, nullptr), path,
                 "private");
}
Key public_key(const fs::path& path) {
  return checked(PEM_read_PUBKEY(open_file(path).get(), nullptr, &no_password, nullptr), path,
                 "public");
}

std::string id_of(const Key& key) {
  std::array<std::uint8_t, 32> raw{};
  std::size_t bytes = raw.size();
  EVP_PKEY_get_raw_public_key(key.get(), raw.data(), &bytes);
  return hex(sha256(std::as_bytes(std::span(raw)))).substr(0, 16);
}

const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

std::string signature_of(const Key& key, std::string_view body) {
  const Context context(EVP_MD_CTX_new());
  std::array<std::uint8_t, 64> signature{};
  std::size_t bytes = signature.size();
  if (!context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &bytes, bytes_of(body), body.size()) != 1)
    throw ConfigError("the key cannot sign");
  return hex(std::span(signature).first(bytes));
}

bool is_signed(const Key& key, std::string_view body, const std::vector<std::uint8_t>& signature) {
  const Context context(EVP_MD_CTX_new());
  return context &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), signature.data(), signature.size(), bytes_of(body),
                          body.size()) == 1;
}

std::vector<std::uint8_t> from_hex(std::string_view text) {
  const auto digit = [](char one) {
    return one >= '0' && one <= '9' ? one - '0' : one >= 'a' && one <= 'f' ? one - 'a' + 10 : -1;
  };
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    if (digit(text[i]) < 0 || digit(text[i + 1]) < 0) return {};
    bytes.push_back(static_cast<std::uint8_t>(digit(text[i]) * 16 + digit(text[i + 1])));
  }
  return bytes;
}

#endif

// The body, and the words of the last line.
struct Parts {
  std::string_view body;
  std::string_view key;
  std::string_view signature;
};
Parts parts_of(std::string_view text) {
  const std::size_t at = text.rfind(kMark);
  if (at == std::string_view::npos || at == 0 || text[at - 1] != '\n' || !text.ends_with('\n'))
    throw ConfigError("it is no certificate, or cut off; it has no line with a signature");
  std::string_view line = text.substr(at + kMark.size());
  line.remove_suffix(1);
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find('\n') != std::string_view::npos)
    throw ConfigError("its signature is damaged");
  return {text.substr(0, at), line.substr(0, space), line.substr(space + 1)};
}

Certificate content_of(std::string_view body) {
  const json read = json::parse(body, nullptr, false);
  const auto text = [&](const json& from, const char* name) {
    const auto found = from.find(name);
    if (found == from.end() || !found->is_string())
      throw ConfigError(fmt::format("it does not say `{}`", name));
    return found->get<std::string>();
  };
  if (!read.is_object() || !read.contains("plugin") || !read["plugin"].is_object() ||
      !read.contains("battery") || !read["battery"].is_number_integer())
    throw ConfigError("what it says is no certificate of a plugin");
  Certificate result;
  result.plugin = text(read["plugin"], "name");
  result.version = text(read["plugin"], "version");
  result.hash = text(read["plugin"], "hash");
  result.battery = read["battery"].get<int>();
  result.verdict = text(read, "verdict");
  result.made_at = text(read, "made_at");
  return result;
}

}  // namespace

fs::path certificate_path(const fs::path& plugin) {
  return plugin.string() + ".certificate";
}

bool can_sign() {
#ifdef BATCHFLOW_OPENSSL
  return true;
#else
  return false;
#endif
}

#ifdef BATCHFLOW_OPENSSL

std::string signed_text(const std::string& body, const fs::path& path) {
  const Key key = private_key(path);
  return fmt::format("{}{}{} {}\n", body, kMark, id_of(key), signature_of(key, body));
}

void require_public_key(const fs::path& path) {
  public_key(path);
}

Certificate verified(std::string_view text, const std::vector<fs::path>& keys) {
  const Parts parts = parts_of(text);
  const std::vector<std::uint8_t> signature = from_hex(parts.signature);
  std::vector<std::string> known;
  for (const fs::path& path : keys) {
    const Key key = public_key(path);
    known.push_back(id_of(key));
    if (known.back() != parts.key) continue;
    if (!is_signed(key, parts.body, signature))
      throw ConfigError("its signature is wrong: it was changed after it was signed");
    Certificate result = content_of(parts.body);
    result.key = known.back();
    return result;
  }
  throw ConfigError(fmt::format(
      "it is signed with key {}, which this service does not trust{}", parts.key.substr(0, 64),
      known.empty() ? "; name the operator's public key in plugin_keys"
                    : fmt::format(" (it trusts {})", fmt::join(known, ", "))));
}

#else

std::string signed_text(const std::string&, const fs::path&) {
  throw ConfigError("this program was built without OpenSSL and cannot sign");
}
void require_public_key(const fs::path&) {
  throw ConfigError("this program was built without OpenSSL and cannot verify certificates");
}
Certificate verified(std::string_view, const std::vector<fs::path>&) {
  throw ConfigError("this program was built without OpenSSL and cannot verify certificates");
}

#endif

Certificate certificate_of(const fs::path& plugin, const std::string& hash,
                           const std::vector<fs::path>& keys) {
  const fs::path path = certificate_path(plugin);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw ConfigError(
        fmt::format("there is no certificate {}; make one by batchflow-sim check {} --key KEY.pem",
                    path.string(), plugin.string()));
  }
  try {
    Certificate found = verified(read_text(path), keys);
    if (found.hash != hash)
      throw ConfigError("it is of another file; check this one, and ship both together");
    if (found.verdict != "passed")
      throw ConfigError(fmt::format("it says that the plugin has {}", found.verdict));
    if (found.battery < kBattery) {
      throw ConfigError(
          fmt::format("it was made with battery {}, and battery {} is asked for; "
                      "check the plugin again",
                      found.battery, kBattery));
    }
    return found;
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("certificate {}: {}", path.string(), error.what()));
  }
}

}  // namespace batchflow::plugin
