// What a plugin's file says of itself is read without loading it, and a file may say anything.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "policies/plugin/sha256.h"
#include "tests/plugin/plugins_test.h"

namespace batchflow::test::plugin_file_test {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::string sha(std::string_view text) {
  return plugin::hex(plugin::sha256(std::as_bytes(std::span(text))));
}
std::string why_not(std::string_view file) {
  try {
    plugin::read_footer(file);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

// The examples of FIPS 180-4, and lengths around the ends of blocks (by sha256sum).
TEST_CASE("sha256") {
  CHECK(sha("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK(sha(std::string(55, 'a')) ==
        "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  CHECK(sha(std::string(64, 'a')) ==
        "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST_CASE("a footer says what the plugin is") {
  const auto file = plugin_file("several");
  CHECK(file->footer().name == "several");
  CHECK(file->footer().version == "1.2.0");
  CHECK(file->footer().platform == BF_POLICY_PLATFORM);
  CHECK(file->footer().interface_least == BF_POLICY_VERSION_LEAST);
  CHECK(file->footer().interface_most == BF_POLICY_VERSION);
  CHECK(file->footer().policies ==
        std::vector<std::string>{"eviction=counting", "dispatch=oldest-turn", "preset=several"});
  CHECK(file->hash() == sha(content(plugin_path("several"))));
}

TEST_CASE("what is no plugin, or none for this program, is refused with the reason") {
  CHECK(why_not("") == "it is no shared library");
  CHECK(why_not("#!/bin/sh\n") == "it is no shared library");
  CHECK(why_not(content("/proc/self/exe")).find("it is ") == 0);
  std::string file = content(plugin_path("several"));
  file[18] = 3;  // e_machine: a 386
  CHECK(why_not(file).find("built for another machine") != std::string::npos);
  CHECK(why_not(content(plugin_path("other_version"))).find("versions 7 to 9 of the interface") !=
        std::string::npos);
  CHECK(why_not(content(plugin_path("other_platform"))).find("built for linux-pdp11") !=
        std::string::npos);
  CHECK(why_not(content(plugin_path("no_footer"))).find("it has no footer") != std::string::npos);
  CHECK_THROWS_AS(plugin::PluginFile("/nowhere/at-all.so"), ConfigError);
  CHECK_THROWS_AS(plugin::PluginFile("/dev/zero"), ConfigError);
  CHECK_THROWS_AS(plugin::PluginFile("/"), ConfigError);
}

TEST_CASE("a file that is cut off anywhere is refused") {
  const std::string file = content(plugin_path("several"));
  for (std::size_t length = 0; length < file.size();
       length += length < 4096 || length + 4096 > file.size() ? 1 : 509) {
    CAPTURE(length);
    CHECK(why_not(std::string_view(file).substr(0, length)) != "");
  }
}

TEST_CASE("bytes that are changed at random are read within bounds") {
  const std::string whole = content(plugin_path("several"));
  Random random(5);
  for (int i = 0; i < 20'000; ++i) {
    // A copy of its size, since a sanitizer then sees a read behind the end.
    std::string file = whole;
    for (std::uint64_t change = 1 + random.below(4); change > 0; --change) {
      // In the headers, which stand at the beginning and at the end, or anywhere.
      const std::uint64_t at = random.below(3) == 0   ? random.below(file.size())
                               : random.below(2) == 0 ? random.below(64)
                                                      : file.size() - 1 - random.below(3000);
      file[at] = static_cast<char>(random.draw());
    }
    why_not(file);
  }
}

}  // namespace batchflow::test::plugin_file_test
