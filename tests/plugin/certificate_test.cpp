// Certificates hold for one file, by a key that is trusted, and for this battery.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "core/base/config_value.h"
#include "policies/plugin/certificate.h"
#include "tests/plugin/plugins_test.h"
#include "tests/skip.h"
#include "tests/temporary_folder.h"

namespace batchflow::test::plugin_certificate_test {
namespace {

namespace fs = std::filesystem;

struct Keys {
  Keys() {
    for (const char* key : {"operator", "other"}) {
      const std::string path = (folder / key).string();
      const std::string make = "openssl genpkey -algorithm ed25519 -out " + path +
                               ".pem 2>/dev/null && openssl pkey -in " + path +
                               ".pem -pubout -out " + path + ".pub";
      made = made && std::system(make.c_str()) == 0;
    }
  }
  fs::path at(const char* name) const { return folder / name; }
  TemporaryFolder folder;
  bool made = true;
};

std::string body(const std::string& hash, const std::string& verdict = "passed",
                 int battery = plugin::kBattery) {
  return R"({"plugin": {"name": "p", "version": "1", "hash": ")" + hash + R"("}, "verdict": ")" +
         verdict + R"(", "battery": )" + std::to_string(battery) + R"(, "made_at": "2026-01-01"})" +
         "\n";
}

std::string why_not(const Keys& keys, const std::string& text, const std::string& hash = "abc") {
  const fs::path plugin = keys.at("p.so");
  std::ofstream(plugin::certificate_path(plugin)) << text;
  try {
    plugin::certificate_of(plugin, hash, {keys.at("operator.pub")});
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a certificate that is right is taken, and no other") {
  const Keys keys;
  if (!plugin::can_sign() || !keys.made) return skipped("there is no openssl to make keys with");
  const auto by = [&](const char* key, const std::string& text) {
    return plugin::signed_text(text, keys.at(key));
  };
  const std::string good = by("operator.pem", body("abc"));
  CHECK(why_not(keys, good) == "");
  const plugin::Certificate read = plugin::verified(good, {keys.at("operator.pub")});
  CHECK(read.plugin == "p");
  CHECK(read.made_at == "2026-01-01");
  CHECK(read.key.size() == 16);

  const auto refused = [&](const std::string& text, const char* why) {
    const std::string said = why_not(keys, text);
    CHECK_MESSAGE(said.find(why) != std::string::npos, said);
    CHECK(said.find("p.so.certificate: ") != std::string::npos);
  };
  CHECK(why_not(keys, good, "abd").find("it is of another file") != std::string::npos);
  refused(by("other.pem", body("abc")), "which this service does not trust");
  refused(by("operator.pem", body("abc", "failed")), "it says that the plugin has failed");
  refused(by("operator.pem", body("abc", "passed", plugin::kBattery - 1)),
          "check the plugin again");
  refused(by("operator.pem", "{}\n"), "is no certificate of a plugin");
  refused(by("operator.pem", "nonsense\n"), "is no certificate of a plugin");
  refused("", "it is no certificate, or cut off");
  // Each byte counts, and so does each byte that is missing.
  for (std::size_t at = 0; at + 1 < good.size(); at += 7) {
    std::string changed = good;
    changed[at] = changed[at] == 'x' ? 'y' : 'x';
    CHECK(why_not(keys, changed) != "");
    CHECK(why_not(keys, good.substr(0, at)) != "");
  }
  CHECK_THROWS_AS(plugin::signed_text("x", keys.at("operator.pub")), ConfigError);
  CHECK_THROWS_AS(plugin::verified(good, {keys.at("operator.pem")}), ConfigError);
  CHECK_THROWS_AS(plugin::certificate_of("/nowhere.so", "abc", {}), ConfigError);
}

}  // namespace batchflow::test::plugin_certificate_test
