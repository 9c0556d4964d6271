// The real program on good and bad input: what it prints where, its exit code, what it leaves
// behind.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

using nlohmann::json;

namespace {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "batchflow-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(path / name, std::ios::binary) << content;
    return (path / name).string();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
  }
  std::filesystem::path path;
};

std::string content(const std::filesystem::path& path) {
  std::stringstream stream;
  stream << std::ifstream(path, std::ios::binary).rdbuf();
  return stream.str();
}

pid_t start(const std::vector<std::string>& words, const Folder& folder) {
  const pid_t child = fork();
  if (child != 0) return child;
  const auto redirect = [&](const char* name, int descriptor) {
    dup2(open((folder.path / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), descriptor);
  };
  redirect("out", 1);
  redirect("err", 2);
  std::vector<char*> arguments = {const_cast<char*>(BATCHFLOW_SIM)};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(BATCHFLOW_SIM, arguments.data());
  _exit(126);
}

Outcome finish(pid_t child, const Folder& folder) {
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status),
          content(folder.path / "out"), content(folder.path / "err")};
}

Outcome run(const std::vector<std::string>& words) {
  const Folder folder;
  return finish(start(words, folder), folder);
}

const std::string kSmall = "gen:perm,n=200,epochs=5";

// Nothing on standard output, one line on standard error, exit code 2.
void check_refused(const std::vector<std::string>& words, const std::string& part) {
  const Outcome outcome = run(words);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK(outcome.err.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("a table for people on standard output, nothing else anywhere") {
  const Outcome outcome = run({"cache", kSmall, "--policy", "lru,minio", "--size", "10%,50"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK(outcome.out.find("1,000 requests, 200 items") != std::string::npos);
  // Closed form: 5 * 200 - 4 * 20 misses of 1000.
  CHECK(outcome.out.find("0.9200*") != std::string::npos);
  CHECK(outcome.out.find("lru") != std::string::npos);
  CHECK(outcome.out.find('\r') == std::string::npos);  // no progress bar where no terminal is
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

TEST_CASE("results in files, and any number of threads gives the same") {
  const Folder folder;
  const std::string json_path = (folder.path / "x.json").string();
  const std::string csv_path = (folder.path / "x.csv").string();
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
  check_refused({"cache", kSmall, "--size", "10q"}, "no cache size");
  check_refused({"cache", kSmall, "--size", "-5"}, "no cache size");
  check_refused({"cache", kSmall, "--sise", "5"}, "write '--size'");
  check_refused({"cache", kSmall, "--threads", "0"}, "--threads");
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

TEST_CASE("bad input leaves no output file behind, and the one that was there as it was") {
  const Folder folder;
  const std::string trace = folder.file("t.csv", "0,1,4\n0,1,x\n");
  const std::string old = folder.file("old.json", "old");
  check_refused({"cache", trace, "--json=" + old}, "t.csv:2: the size 'x' is wrong");
  check_refused({"cache", trace, "--json=" + (folder.path / "new.json").string()}, ":2:");
  CHECK(content(old) == "old");
  CHECK(folder.files() == 2);
  CHECK(run({"cache", kSmall, "--json=" + old}).code == 0);
  CHECK(json::parse(content(old)).contains("runs"));
  CHECK(run({"cache", kSmall, "--json=/dev/null"}).code == 0);
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("an interrupt ends the program with 130 and no file") {
  const Folder folder;
  const pid_t child = start({"cache", "gen:perm,n=3000000,epochs=100", "--policy", "gdsf",
                             "--json=" + (folder.path / "x.json").string()},
                            folder);
  while (folder.files() < 3) usleep(1000);  // out, err and the temporary one: it is at work
  usleep(20000);
  kill(child, SIGINT);
  const Outcome outcome = finish(child, folder);
  CHECK(outcome.code == 130);
  CHECK(outcome.out.empty());
  CHECK(folder.files() == 2);
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
