// Certificates: that a check found a plugin fit to be shipped, signed with an operator's key.
//
// A certificate is a text: an object of JSON, and behind it a line with the key's id and the
// signature (Ed25519) of all bytes before that line. It stands beside the plugin, as
// PLUGIN.so.certificate.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace batchflow::plugin {

// The version of the scenarios in configs/battery. It grows when they change; what was certified
// with an older one has to be checked again.
inline constexpr int kBattery = 1;

struct Certificate {
  std::string plugin;  // its name
  std::string version;
  std::string hash;  // of the plugin's file
  int battery = 0;
  std::string verdict;  // `passed`
  std::string made_at;  // the date
  std::string key;      // the id of the key that signed it
};

std::filesystem::path certificate_path(const std::filesystem::path& plugin);

// Whether this program can sign and verify (it was built with OpenSSL).
bool can_sign();

// `body`, signed. `key`: a file with a private key in PEM (`openssl genpkey -algorithm ed25519`).
// Throws ConfigError.
std::string signed_text(const std::string& body, const std::filesystem::path& key);

// Throws ConfigError if the file holds no public key in PEM that can verify.
void require_public_key(const std::filesystem::path& key);

// What a certificate says, if one of these public keys (files in PEM) has signed it. Throws
// ConfigError that says what is wrong with it.
Certificate verified(std::string_view text, const std::vector<std::filesystem::path>& keys);

// The certificate beside the plugin, which is for a file of this hash. Throws ConfigError, also
// when it is of another file, says that the plugin did not pass, or was made with an older battery.
Certificate certificate_of(const std::filesystem::path& plugin, const std::string& hash,
                           const std::vector<std::filesystem::path>& keys);

}  // namespace batchflow::plugin
