#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "runtime/service/http/http.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/http_get.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::http_test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a page, metrics and a status are served, and nothing else") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  std::filesystem::create_directory(folder.path() / "rows");
  write_rows(folder.path() / "rows" / "rows.npy", 640, 16);
  config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0});
  const LiveService service(config);
  JobPlan plan;
  plan.service = config.socket;
  plan.name = "a \"job\" <b>";
  plan.epochs = 1;
  CHECK(run_job(plan).wrong == "");
  const int port = service.http_port();

  const std::string metrics = get(port, "/metrics");
  CHECK(has(metrics, "HTTP/1.1 200 OK"));
  CHECK(has(metrics, "Content-Type: text/plain; version=0.0.4"));
  CHECK(has(metrics, "# TYPE batchflow_samples_prepared_total counter"));
  CHECK(has(metrics, "\nbatchflow_samples_prepared_total 640\n"));
  CHECK(has(metrics, "\nbatchflow_repeats_total 0\n"));

  const std::string status = get(port, "/status.json");
  const auto json = nlohmann::json::parse(status.substr(status.find("\r\n\r\n") + 4));
  CHECK(json.at("prepared_samples") == 640);
  CHECK(json.at("datasets").at(0).at("name") == "rows");

  const std::string page = get(port, "/");
  CHECK(has(page, "text/html"));
  CHECK(has(page, "samples delivered"));
  CHECK_FALSE(has(page, "<b>\""));
  CHECK_FALSE(has(page, "http-equiv"));
  CHECK(has(page, "<noscript>"));

  CHECK(has(get(port, "/healthz"), "ok"));
  CHECK(has(get(port, "/../etc/passwd"), "404 Not Found"));
  CHECK(has(ask(port, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), "405"));
  CHECK_FALSE(has(ask(port, std::string(100'000, 'x')), "200"));
}

TEST_CASE("an address that cannot be listened at is named, and not its port") {
  Folder folder;
  for (const char* address : {"300.1.1.1", "192.0.2.1"}) {  // none, and of no machine
    CAPTURE(address);
    service::NodeConfig config = config_in(folder.path());
    config.open_datasets = true;
    config.http_address = address;
    CHECK_THROWS_WITH_AS(service::Service{config},
                         doctest::Contains("write an address of this machine in numbers"),
                         ConfigError);
  }
}

TEST_CASE("folders that jobs have brought are named to no client that does not name its user") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  config.open_datasets = true;
  const std::filesystem::path rows = folder.path() / "of-a-user";
  std::filesystem::create_directory(rows);
  write_rows(rows / "rows.npy", 640, 16);
  const LiveService service(config);
  JobPlan plan;
  plan.service = config.socket;
  plan.dataset = rows;
  plan.name = "a-job";
  plan.epochs = 1000;
  plan.pause_us = 1000;
  std::atomic<std::uint64_t> batches{0};
  plan.count = &batches;
  plan.batches_most = 3000;
  std::thread job([&] { run_job(plan); });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (batches < 3 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const int port = service.http_port();
  for (const char* path : {"/", "/status.json", "/metrics"}) {
    CAPTURE(path);
    const std::string told = get(port, path);
    CHECK(has(told, "a-job"));
    CHECK(has(told, "folder 0"));
    CHECK_FALSE(has(told, "of-a-user"));
  }
  // A client of the service's own user, which it shows, sees them.
  const nlohmann::json own = command(config.socket, "status");
  CHECK(has(own.dump(), "of-a-user"));
  // It is also told a key of the page, which a browser can show, and which no other is told.
  const std::string address = own.at("page_with_all_names");
  const std::string key = address.substr(address.find("/?") + 1);
  REQUIRE(key.size() == std::string("?key=").size() + 32);
  for (const char* path : {"/", "/status.json"}) {
    CAPTURE(path);
    CHECK(has(get(port, path + key), "of-a-user"));
    CHECK_FALSE(has(get(port, path), key.substr(5)));
    for (const std::string& wrong : {key + "0", key.substr(0, key.size() - 1), std::string("?key="),
                                     "?key=0&" + key.substr(1)}) {
      CAPTURE(wrong);
      const std::string refused = get(port, path + wrong);
      CHECK(has(refused, "403 Forbidden"));
      CHECK_FALSE(has(refused, "of-a-user"));
    }
  }
  CHECK(command(config.socket, "job_kill", {{"job", "a-job"}}).at("type") == "answer");
  job.join();
}

TEST_CASE("a name that was made to lead here is not this machine's") {
  const std::vector<std::string> names = {"node17", "Node17.cluster.example"};
  for (const char* mine :
       {"localhost", "LOCALHOST:9837", "127.0.0.1", "127.0.0.1:9837", "10.1.2.3:80", "[::1]:9837",
        "[::1]", "node17", "node17:9837", "node17.", "node17.cluster.example:1"})
    CHECK_MESSAGE(service::is_this_machine(mine, names), mine);
  for (const char* other : {"", ":9837", "evil.example", "localhost.evil.example:9837", "[::1",
                            "node17.evil.example", "127.0.0.1.evil.example", "[node17]", "[", "x]"})
    CHECK_FALSE_MESSAGE(service::is_this_machine(other, names), other);

  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  config.http_hosts = {"batchflow.example"};
  const LiveService service(config);
  const auto asked_as = [&](const std::string& host) {
    return ask(service.http_port(), "GET /metrics HTTP/1.1\r\n" + host + "\r\n");
  };
  CHECK(has(asked_as("Host: evil.example:9837\r\n"), "421 Misdirected Request"));
  CHECK(has(asked_as("Host: evil.example:9837\r\n"), "http: {hosts: [NAME]}"));
  CHECK_FALSE(has(asked_as("Host: evil.example\r\n"), "batchflow_"));
  CHECK(has(asked_as("Host: batchflow.example\r\n"), "batchflow_build_info"));
  CHECK(has(asked_as("Host: 127.0.0.1\r\n"), "batchflow_build_info"));
  CHECK(has(asked_as(""), "batchflow_build_info"));  // no browser
}

// The page takes what it is made of from the service alone, and no text of it can become a script:
// a browser is told so, and the script takes nothing for HTML that is to be carried out.
TEST_CASE("the page's script and style are its own, and browsers run no other") {
  Folder folder;
  const LiveService service(config_in(folder.path()));
  const int port = service.http_port();
  const std::string page = get(port, "/");
  for (const char* own : {"default-src 'none'", "script-src 'self'", "style-src 'self'",
                          "connect-src 'self'", "frame-ancestors 'none'"})
    CHECK_MESSAGE(has(page, own), own);
  for (const char* inlined : {"unsafe", "://", " style=", "<style", " onload="})
    CHECK_FALSE_MESSAGE(has(page, inlined), inlined);
  CHECK(has(page, "src=\"page.js\""));
  CHECK(has(page, "href=\"page.css\""));
  const std::string script = get(port, "/page.js");
  CHECK(has(script, "Content-Type: text/javascript"));
  CHECK(has(script, "fetch(location.href"));
  for (const char* unsafe : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                             "eval(", "Function(", "reload(", "://"})
    CHECK_FALSE_MESSAGE(has(script, unsafe), unsafe);
  CHECK(has(get(port, "/page.css"), "Content-Type: text/css"));
}

TEST_CASE("the page shows how fast jobs are, also of pipelines that they bring, by their steps") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  std::filesystem::create_directory(folder.path() / "rows");
  write_rows(folder.path() / "rows" / "rows.npy", 640, 16);
  config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0});
  const LiveService service(config);
  JobPlan plan;
  plan.service = config.socket;
  plan.name = "a-job";
  plan.pipeline = R"({"kind": "pipeline", "name": "p", "steps": [{"step": "cast", "to": "i64"}]})";
  plan.epochs = 100'000;
  plan.pause_us = 1000;
  std::thread job([&] { run_job(plan); });
  const int port = service.http_port();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::string page;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    page = get(port, "/");
  } while (!has(page, "class=\"pace\"") && std::chrono::steady_clock::now() < until);
  CHECK(has(page, "class=\"pace\""));
  CHECK(has(page, "brought by the job<small>cast</small>"));
  CHECK(has(page, (folder.path() / "rows").string()));
  CHECK_FALSE(has(page, ">#"));
  CHECK(command(config.socket, "job_kill", {{"job", "a-job"}}).at("type") == "answer");
  job.join();
}

// A probe that is reset, or waits, has the service started anew.
TEST_CASE("a health check is answered at once, also when others begin to ask and stop") {
  using namespace std::chrono_literals;
  Folder folder;
  const LiveService service(config_in(folder.path()));
  const int port = service.http_port();
  const std::string half = "GET /metrics HTTP/1.1\r\nHost:";
  const auto check = [port](int times) {
    for (int i = 0; i < times; ++i) {
      const auto began = std::chrono::steady_clock::now();
      CHECK(has(get(port, "/healthz"), "200 OK"));
      CHECK(has(get(port, "/metrics"), "batchflow_samples_prepared_total"));
      CHECK(std::chrono::steady_clock::now() - began < 2s);
    }
  };
  std::vector<protocol::Descriptor> open;
  for (int i = 0; i < 1000; ++i) open.push_back(begin_to_ask(port, half));
  check(20);
  std::atomic<bool> over = false;
  std::thread opens([&] {
    for (std::size_t i = 0; !over; ++i) open[i % open.size()] = begin_to_ask(port, half);
  });
  check(50);
  over = true;
  opens.join();
  // Clients that ask and take no answer keep none out either.
  for (protocol::Descriptor& one : open) one = begin_to_ask(port, "GET / HTTP/1.1\r\n\r\n");
  check(20);
}

}  // namespace
}  // namespace batchflow::test::http_test
