// The real program on good and bad input: what it prints on which stream, its exit code, and what
// it leaves behind.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/sim/program.h"

namespace batchflow::test::cli_test {
using nlohmann::json;

TEST_CASE("a table for people on standard output, nothing else anywhere") {
  const Outcome outcome = run({"cache", kSmall, "--policy", "lru,minio", "--size", "10%,50"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK(outcome.out.find("1,000 requests, 200 items") != std::string::npos);
  // Closed form: 5 * 200 - 4 * 20 misses of 1000.
  CHECK(outcome.out.find("0.9200*") != std::string::npos);
  CHECK(outcome.out.find("lru") != std::string::npos);
  CHECK(outcome.out.find('\r') == std::string::npos);  // no progress bar without a terminal
}

TEST_CASE("JSON alone on standard output, the table beside it on standard error") {
  const Outcome outcome = run({"cache", kSmall, "-p", "minio", "-p", "eviction=lru,minio", "--size",
                               "10%", "--size", "50,20", "--json"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.find("miss ratio") != std::string::npos);
  const json result = json::parse(outcome.out);
  CHECK(result["trace"]["requests"] == 1000);
  CHECK(result["trace"]["working_set_bytes"] == 200);
  REQUIRE(result["runs"].size() == 4);  // what is named twice is done once
  const json& first = result["runs"][0];
  CHECK(first["policy"] == "minio");
  CHECK(first["size"] == 20);
  CHECK(first["requests"] == 1000);
  CHECK(first["misses"] == 1000 - 4 * 20);
  CHECK(first["bytes_requested"] == 1000);
  CHECK(first["bytes_missed"] == 920);
  CHECK(result["runs"][1]["misses"] == 1000 - 4 * 50);
  CHECK(result["runs"][2]["policy"] == "lru");
}

TEST_CASE("nodes that share a cache fetch from one another, and read each item once") {
  const Outcome outcome =
      run({"cache", kSmall, "-p", "lru", "--size", "150%", "--nodes", "4", "--json"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.find("4 nodes with equal parts of the cache") != std::string::npos);
  CHECK(outcome.err.find("fetch ratio") != std::string::npos);
  const json result = json::parse(outcome.out);
  CHECK(result["nodes"] == 4);
  CHECK(result["runs"][0]["misses"] == 200);
  CHECK(result["runs"][0]["fetches"] > 0);
  CHECK(run({"cache", kSmall, "-p", "lru", "--size", "150%"}).out.find("nodes") ==
        std::string::npos);
}

TEST_CASE("results in files, and any number of threads gives the same") {
  const Folder folder;
  const std::string json_path = (folder.path() / "x.json").string();
  const std::string csv_path = (folder.path() / "x.csv").string();
  const std::vector<std::string> words = {
      "cache",    "gen:zipf,n=900,requests=20000,size=3,size_most=90",
      "--policy", "random,arc,s3fifo:small=0.2,belady",
      "--size",   "1%,7.5%,2kb,1kib"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run(more);
  };
  CHECK(with({"--threads", "4", "--json=" + json_path, "--csv=" + csv_path}).code == 0);
  const Outcome one = with({"--threads", "1", "--json=-"});
  CHECK(one.out == content(json_path));
  const json result = json::parse(one.out);
  const auto working_set = result["trace"]["working_set_bytes"].get<std::uint64_t>();
  CHECK(result["runs"][0]["size"] == working_set / 100);
  CHECK(result["runs"][1]["size"] == working_set * 75 / 1000);
  CHECK(result["runs"][2]["size"] == 2000);
  CHECK(result["runs"][3]["size"] == 1024);
  CHECK(result["runs"][8]["policy"] == "s3fifo:small=0.2");
  const std::string csv = content(csv_path);
  CHECK(csv.starts_with("policy,size,requests,misses,bytes_requested,bytes_missed"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 17);
  CHECK(folder.files() == 2);
}

TEST_CASE("a trace from a file; requests of size zero are left out and counted") {
  const Folder folder;
  const std::string path = folder.file("t.csv", "time,id,size\n0,1,4\n1,2,0\n2,1,4\n3,9,6\n");
  const Outcome outcome = run({"cache", path, "--policy", "lru", "--size", "4", "--json"});
  const json result = json::parse(outcome.out);
  CHECK(result["trace"]["requests_of_size_zero"] == 1);
  CHECK(result["runs"][0]["requests"] == 3);
  CHECK(result["runs"][0]["misses"] == 2);
  CHECK(result["runs"][0]["bytes_missed"] == 10);
}

TEST_CASE("bad input: one clear line, exit code 2") {
  check_refused({"cache", kSmall, "--policy", "lur"}, "write 'lru'");
  check_refused({"cache", kSmall, "--policy", "lru:depth=2"}, "unknown parameter 'depth'");
  check_refused({"cache", kSmall, "--policy", "s3fifo:smal=2"}, "write 'small'");
  check_refused({"cache", kSmall, "--policy", "s3fifo:small=2"}, "from 0 to 1");
  check_refused({"cache", kSmall, "--policy", "s3fifo:small=.2:small=.3"}, "set twice");
  check_refused({"cache", kSmall, "--policy", "dispatch=fifo"}, "write eviction=NAME");
  check_refused({"cache", kSmall, "--policy", "lru,,fifo"}, "empty name");
  check_refused({"cache", kSmall, "--size", "0"}, "above 0");
  check_refused({"cache", kSmall, "--size", "0%"}, "above 0");
  check_refused({"cache", kSmall, "--size", "0.1%"}, "less than one byte");
  check_refused({"cache", kSmall, "--size", "10q"}, "not a cache size");
  check_refused({"cache", kSmall, "--size", "-5"}, "not a cache size");
  check_refused({"cache", kSmall, "--sise", "5"}, "write '--size'");
  check_refused({"cache", kSmall, "--threads", "0"}, "--threads");
  check_refused({"cache", kSmall, "--nodes", "0"}, "--nodes");
  check_refused({"cache", kSmall, "--nodes", "4", "--size", "3"}, "a byte for each of 4 nodes");
  check_refused({"cache", kSmall, "--json", "--csv"}, "--csv=FILE");
  check_refused({"cache", "gen:prem"}, "write 'gen:perm'");
  check_refused({"cache", "/nowhere"}, "No such file");
  check_refused({"cache", "/"}, "directory");
  check_refused({"cache"}, "TRACE is required");
  check_refused({"cahce", kSmall}, "write 'cache'");
  check_refused({}, "subcommand");
  check_refused({"policy", "show", "seive"}, "write 'sieve'");
  check_refused({"cache", kSmall, "--json=/nowhere/x"}, "/nowhere/x: cannot be written");
}

TEST_CASE("bad input leaves no output file behind, and an existing file as it was") {
  const Folder folder;
  const std::string trace = folder.file("t.csv", "0,1,4\n0,1,x\n");
  const std::string old = folder.file("old.json", "old");
  check_refused({"cache", trace, "--json=" + old}, "t.csv:2: the size 'x' is wrong");
  check_refused({"cache", trace, "--json=" + (folder.path() / "new.json").string()}, ":2:");
  CHECK(content(old) == "old");
  CHECK(folder.files() == 2);
  CHECK(run({"cache", kSmall, "--json=" + old}).code == 0);
  CHECK(json::parse(content(old)).contains("runs"));
  CHECK(run({"cache", kSmall, "--json=/dev/null"}).code == 0);
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("help, version, and the policies") {
  const Outcome help = run({"cache", "--help"});
  CHECK(help.code == 0);
  CHECK(help.out.find("gen:perm") != std::string::npos);
  CHECK(help.out.find("Examples:") != std::string::npos);
  CHECK(run({"--version"}).out.starts_with("batchflow-sim "));
  CHECK(run({"cache", "gen:help"}).out.find("gen:zipf") != std::string::npos);
  const Outcome list = run({"policy", "list"});
  CHECK(list.code == 0);
  for (const char* name : {"eviction", "s3fifo-warm", "belady-bypass", "refcount"}) {
    CHECK(list.out.find(name) != std::string::npos);
  }
  const Outcome show = run({"policy", "show", "eviction=s3fifo"});
  CHECK(show.out.find("default 0.9") != std::string::npos);
  const json listed = json::parse(run({"policy", "list", "--json"}).out);
  CHECK(listed["policies"].size() >= 19);
  const json shown = json::parse(run({"policy", "show", "2q", "--json"}).out);
  CHECK(shown["policies"][0]["parameters"][0]["name"] == "in");
}

TEST_CASE("a word that was meant otherwise: the hint is what to write") {
  check_refused({"cache", kSmall, "--json", "out.json"}, "write '--json=out.json'");
  check_refused({"cache", "gen:perm", "n=10"}, "write 'gen:perm,n=10'");
  check_refused({"cache", "gen:perm n=10"}, "has a space in it");
  check_refused({"list", "policy"}, "write 'policy list'");
  check_refused({"show", "lru"}, "write 'policy show'");
  check_refused({"policy", "lst"}, "write 'list'");
  check_refused({"help", "cahce"}, "write 'cache'");
  check_refused({"cache", kSmall, "--json="}, "--json= is followed by nothing");
  check_refused({"cache", kSmall, "--policy", "s3fifo,small=0.2"}, "s3fifo:small=0.2");
  check_refused({"cache", kSmall, "--format", "oracel"}, "oracleGeneral");
  CHECK(run({"cache", "--version"}).out.starts_with("batchflow-sim "));
  CHECK(run({"help"}).out == run({"--help"}).out);
  CHECK(run({"help", "policy", "show"}).out == run({"policy", "show", "--help"}).out);
}

TEST_CASE("sizes: the reason is the right one") {
  const auto refused = [](const std::string& size, const std::string& part) {
    check_refused({"cache", kSmall, "--size", size}, part);
  };
  refused("", "empty name or size in ''");
  refused("0x10", "is hexadecimal");
  refused("1.5", "has no unit");
  refused("0gb", "above 0");
  refused("18446744073709551615", "is more than any cache has");
  refused("9223372036854775808", "write at most 9223pb");
  refused("10000pb", "is more than any cache has");
  refused("10 %", "is not a cache size");
  const Outcome outcome =
      run({"cache", kSmall, "-p", "lru", "-s", "200%,1kib,1tib,1pb,9223pb", "--json"});
  const json runs = json::parse(outcome.out)["runs"];
  REQUIRE(runs.size() == 5);
  CHECK(runs[0]["size"] == 400);
  CHECK(runs[2]["size"] == 1099511627776);
  for (const json& one : runs) CHECK(one["misses"] == 200);  // all of it fits
}

TEST_CASE("numbers that are none, or too many") {
  for (const char* number : {"-1", "18446744073709551616", "x", "", "1.5"}) {
    check_refused({"cache", kSmall, "--seed", number}, "--seed");
  }
  CHECK(run({"cache", kSmall, "--seed", "18446744073709551615"}).code == 0);
  check_refused({"cache", kSmall, "--threads", "1025"}, "from 1 to 1024");
  check_refused({"cache", kSmall, "--threads", "-1"}, "--threads");
}

TEST_CASE("the usual sizes fit the smallest traces") {
  const Folder folder;
  const std::string path = folder.file("t.csv", "0,1,1\n1,1,1\n");
  const json result = json::parse(run({"cache", path, "-p", "lru,fifo", "--json"}).out);
  for (const json& one : result["runs"]) {
    CHECK(one["size"] == 1);
    CHECK(one["misses"] == 1);
  }
}

TEST_CASE("every result has a place of its own") {
  const Folder folder;
  const std::string trace = folder.file("t.csv", "0,1,4\n0,1,4\n");
  const std::string result = folder.name("x");
  check_refused({"cache", trace, "--json=" + result, "--csv=" + folder.name("./x")}, "both go to");
  check_refused({"cache", trace, "--json=" + result, "--json=" + result}, "given twice");
  check_refused({"cache", trace, "--json", "--json=-"}, "given twice");
  check_refused({"cache", trace, "--json=" + trace}, "would overwrite what is read");
  std::filesystem::create_symlink("t.csv", folder.path() / "link");
  check_refused({"cache", trace, "--csv=" + folder.name("link")}, "would overwrite what is read");
  check_refused({"cache", trace, "--json=" + folder.path().string()}, "Is a directory");
  check_refused({"cache", trace, "--json=" + folder.name(std::string(300, 'x'))}, "too long");
  CHECK(folder.files() == 2);
  CHECK(content(trace) == "0,1,4\n0,1,4\n");

  std::filesystem::create_symlink("target", folder.path() / "to-target");
  CHECK(run({"cache", trace, "--json=" + folder.name("to-target")}).code == 0);
  CHECK(std::filesystem::is_symlink(folder.path() / "to-target"));
  CHECK(json::parse(content(folder.path() / "target")).contains("runs"));
}

TEST_CASE("what is no trace is named, with what makes it one") {
  const Folder folder;
  const auto refused = [&](const std::string& bytes, const std::string& part) {
    check_refused({"cache", folder.file("t", bytes)}, part);
  };
  // Each has 24 bytes, like the records of a binary trace.
  refused("\x1f\x8b\x08" + std::string(21, '\x99'), "gzip -dc");
  refused("BZh91AY&SY" + std::string(14, '\x99'), "bzip2 -dc");
  refused(std::string("\xfd\x37zXZ\0", 6) + std::string(18, '\x99'), "xz -dc");
  refused("PK\x03\x04" + std::string(20, '\x99'), "unzip -p");
  std::string wide;  // UTF-16
  for (char c : std::string("0,1,1\n0,1,1\n")) wide += {c, '\0'};
  refused("\xff\xfe" + wide.substr(0, 22), "iconv -f UTF-16");
  refused(wide, "neither CSV text nor");
  refused(std::string(24, '\x99'), "neither CSV text nor oracleGeneral");
  refused("0,1,4\n0,\x01,4\n0,1,41,42,43", "t:2: the id '\\x01'");
  refused("0,1,4\n0,\x1b[31m,4\n", "t:2: the id '\\x1b[31m'");
}

TEST_CASE("a format that is named is taken at its word") {
  const Folder folder;
  const std::string path = folder.file("t", std::string(48, '\x99'));
  const Outcome outcome =
      run({"cache", path, "--format", "oracleGeneral", "-p", "lru", "-s", "50%"});
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("2 requests, 1 items") != std::string::npos);
  check_refused({"cache", path, "--format=csv"}, ":1: ");
  check_refused({"cache", folder.file("t.csv", std::string(48, '\x99'))}, "t.csv:1: ");
}

TEST_CASE("a dash is standard input") {
  const Folder folder;
  const std::string path = folder.file("t.csv", "0,1,4\n0,1,4\n");
  const auto from_file = [&] { dup2(open(path.c_str(), O_RDONLY), 0); };
  const Outcome outcome = run({"cache", "-", "-p", "lru", "-s", "4", "--json"}, from_file);
  CHECK(json::parse(outcome.out)["runs"][0]["misses"] == 1);
  const Outcome broken = run({"cache", "-", "--format=oracleGeneral"}, from_file);
  CHECK(broken.err.find("standard input:1: the last record has 12") != std::string::npos);
}

TEST_CASE("what is asked in JSON is answered in JSON") {
  const json help = json::parse(run({"cache", "gen:help", "--json"}).out);
  CHECK(help["generators"][0]["name"] == "perm");
  CHECK(help["generators"][0]["parameters"][0]["greatest"] == 4e9);
  check_refused({"cache", "gen:help", "--csv"}, "write --json");
  const json listed = json::parse(run({"policy", "list", "--json"}).out);
  CHECK(listed["presets"][2]["name"] == "independent");
  CHECK(listed["presets"][2]["policies"]["eviction"]["encoded"] == "random");
}

TEST_CASE("presets are listed and explained") {
  CHECK(run({"policy", "list"}).out.find("\n  independent ") != std::string::npos);
  const std::string shown = run({"policy", "show", "default"}).out;
  CHECK(shown.starts_with("preset=default\n"));
  CHECK(shown.find("\n  eviction.encoded   batchflow\n") != std::string::npos);
  CHECK(run({"policy", "show", "preset=default"}).out == shown);
  check_refused({"policy", "show", "preset=defualt"}, "write 'default'");
  check_refused({"policy", "show", "preset=lru"}, "unknown preset");
}

TEST_CASE("the best is marked among several, not of one") {
  CHECK(run({"cache", kSmall, "-p", "lru", "-s", "10%"}).out.find('*') == std::string::npos);
  CHECK(run({"cache", kSmall, "-p", "lru,belady", "-s", "10%"}).out.find('*') == std::string::npos);
  CHECK(run({"cache", kSmall, "-p", "lru,mru", "-s", "10%"}).out.find('*') != std::string::npos);
}

}  // namespace batchflow::test::cli_test
