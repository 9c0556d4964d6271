// Signatures and keys of requests to stores, beside the examples that AWS publishes.
#include "runtime/objects/signing.h"

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "fmt/format.h"
#include "runtime/objects/credentials.h"
#include "runtime/objects/url.h"
#include "tests/temporary_folder.h"

namespace batchflow::test::signing_test {

namespace {

using Values = std::map<std::string, std::string>;

// Sets variables of the environment as long as it lives.
class Variables {
 public:
  explicit Variables(const Values& values) {
    for (const char* name :
         {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
          "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
          "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_DISABLED"})
      set(name, nullptr);
    set("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
    set("AWS_CONFIG_FILE", "/dev/null");
    for (const auto& [name, value] : values) set(name.c_str(), value.c_str());
  }
  ~Variables() {
    for (const auto& [name, value] : before_)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  void set(const char* name, const char* value) {
    const char* const was = std::getenv(name);
    before_.try_emplace(name, was ? std::optional<std::string>(was) : std::nullopt);
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  std::map<std::string, std::optional<std::string>> before_;
};

std::string signature_of(std::string target) {
  objects::HttpRequest request;
  request.target = std::move(target);
  objects::Keys keys;
  keys.id = "AKIAIOSFODNN7EXAMPLE";
  keys.secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
  objects::sign(request, "examplebucket.s3.amazonaws.com", keys, "us-east-1", "s3",
                *objects::time_of("2013-05-24T00:00:00Z"));
  const std::string line = request.headers.back().second;
  return line.substr(line.find("Signature=") + 10);
}

}  // namespace

TEST_CASE("signatures are those of AWS's examples") {
  CHECK(signature_of("/?lifecycle=") ==
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  CHECK(signature_of("/?max-keys=2&prefix=J") ==
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST_CASE("URLs are taken apart, and what is none is refused") {
  objects::Url url;
  CHECK(objects::parse_url("s3://bucket/a b/c", url).empty());
  CHECK(url.bucket == "bucket");
  CHECK(url.path == "a b/c");
  CHECK(objects::parse_url("https://host:8443/x/y.tar?sig=1#part", url).empty());
  CHECK(url.endpoint == objects::Endpoint{true, "host", 8443});
  CHECK(url.path == "x/y.tar");
  CHECK(url.query == "sig=1");
  CHECK(objects::parse_url("http://[::1]:80/", url).empty());
  CHECK(url.endpoint.host_header() == "[::1]");
  for (const char* wrong :
       {"ftp://host/x", "s3://", "s3://a b/c", "http://", "http://host:0/", "http://host:99999/",
        "http://user:secret@host/", "http://host/a b", "http://host/a\r\nX: y", "/a/path", ""})
    CHECK_MESSAGE(!objects::parse_url(wrong, url).empty(), wrong);
  CHECK(objects::percent_encoded("a b/c+d", true) == "a%20b/c%2Bd");
  CHECK(objects::percent_decoded("a%20b%2Fc%2") == "a b/c%2");
  CHECK(objects::query_text({{"prefix", "a/b"}, {"list-type", "2"}}) == "list-type=2&prefix=a%2Fb");
}

TEST_CASE("keys come from the first place that has some") {
  TemporaryFolder folder;
  {
    std::ofstream(folder / "credentials") << "[default]\naws_access_key_id = of file\n"
                                             "aws_secret_access_key=s\n[other]\n"
                                             "aws_access_key_id = other\n# no\n";
    std::ofstream(folder / "config") << "[default]\nregion = here\n[profile other]\nregion=there\n"
                                        "s3 =\n  region = nested\nendpoint_url = http://e\n";
  }
  std::vector<std::string> asked;
  const auto fetch = [&](const objects::Credentials::Fetch& one,
                         std::string&) -> std::optional<std::string> {
    asked.push_back(one.method + " " + one.url + " " + one.token);
    if (one.url.ends_with("/token")) return "session";
    if (one.url.ends_with("/security-credentials/")) return "role\n";
    return R"({"AccessKeyId": "lent", "SecretAccessKey": "s", "Token": "t",
               "Expiration": "2020-01-01T00:00:00Z"})";
  };
  const std::string files = (folder / "credentials").string();
  {
    const Variables of_test(
        {{"AWS_ACCESS_KEY_ID", "of environment"}, {"AWS_SHARED_CREDENTIALS_FILE", files}});
    objects::Credentials credentials(fetch, "r", false);
    CHECK(credentials.get().id == "of environment");
  }
  {
    const Variables of_test(Values{{"AWS_SHARED_CREDENTIALS_FILE", files},
                                   {"AWS_CONFIG_FILE", (folder / "config").string()}});
    objects::Credentials credentials(fetch, "r", false);
    CHECK(credentials.get().id == "of file");
    CHECK(objects::profile_of_files().region == "here");
    setenv("AWS_PROFILE", "other", 1);
    CHECK(objects::profile_of_files().id == "other");
    CHECK(objects::profile_of_files().region == "there");
    CHECK(objects::profile_of_files().endpoint == "http://e");
  }
  CHECK(asked.empty());
  {
    const Variables of_test(
        Values{{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/keys"},
               {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret"}});
    objects::Credentials credentials(fetch, "r", false);
    CHECK(credentials.get().id == "lent");
    CHECK(asked == std::vector<std::string>{"GET http://127.0.0.1:1/keys secret"});
  }
  asked.clear();
  {
    const Variables of_test(Values{{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1"}});
    objects::Credentials credentials(fetch, "r", false);
    CHECK(credentials.get().token == "t");
    REQUIRE(asked.size() == 3);
    CHECK(asked[2].find("/security-credentials/role session") != std::string::npos);
  }
  {
    const Variables of_test(Values{{"AWS_EC2_METADATA_DISABLED", "true"}});
    objects::Credentials credentials(fetch, "r", false);
    CHECK(credentials.get().is_none());
  }
}

TEST_CASE("keys are asked for again before they end, and kept while no others come") {
  const Variables of_test(
      Values{{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/keys"}});
  int asked = 0;
  bool fails = false;
  int lasts_s = 3600;
  const auto fetch = [&](const objects::Credentials::Fetch&,
                         std::string& problem) -> std::optional<std::string> {
    ++asked;
    if (fails) {
      problem = "it fails";
      return std::nullopt;
    }
    const std::time_t end = std::time(nullptr) + lasts_s;
    char text[32];
    std::tm parts{};
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &parts));
    return fmt::format(R"({{"AccessKeyId": "{}", "SecretAccessKey": "s", "Expiration": "{}"}})",
                       asked, text);
  };
  {
    objects::Credentials credentials(fetch, "r", false);
    CHECK(credentials.get().id == "1");
    CHECK(credentials.get().id == "1");
    // The store refuses them all the same: there are others, but they are not asked for all the
    // time.
    const objects::Keys refused = credentials.get();
    credentials.get(&refused);
    CHECK(asked <= 2);
  }
  asked = 0;
  lasts_s = 100;  // less than before which they are renewed
  {
    objects::Credentials credentials(fetch, "r", false);
    CHECK(credentials.get().id == "1");
    fails = true;
    CHECK(credentials.get().id == "1");
  }
}

}  // namespace batchflow::test::signing_test
