#include <nlohmann/json.hpp>

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
  plan.batches_most = 5;
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

}  // namespace
}  // namespace batchflow::test
