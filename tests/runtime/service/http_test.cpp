#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/runtime/service/http_get.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a page, metrics and a status are served, and nothing else") {
  Folder folder;
  NodeConfig config = config_in(folder.path());
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

  CHECK(has(get(port, "/healthz"), "ok"));
  CHECK(has(get(port, "/../etc/passwd"), "404 Not Found"));
  CHECK(has(ask(port, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), "405"));
  CHECK_FALSE(has(ask(port, std::string(100'000, 'x')), "200"));
}

// A probe that is reset, or waits, has the service started anew.
TEST_CASE("a health check is answered at once, whoever else begins to ask and stops") {
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
  std::vector<Descriptor> open;
  for (int i = 0; i < 1000; ++i) open.push_back(begin_to_ask(port, half));
  check(20);
  std::atomic<bool> over = false;
  std::thread opens([&] {
    for (std::size_t i = 0; !over; ++i) open[i % open.size()] = begin_to_ask(port, half);
  });
  check(50);
  over = true;
  opens.join();
  // Who asks and takes no answer keeps nobody out either.
  for (Descriptor& one : open) one = begin_to_ask(port, "GET / HTTP/1.1\r\n\r\n");
  check(20);
}

}  // namespace
}  // namespace batchflow::test
