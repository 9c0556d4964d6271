// The dashboard shows what a live service exports, and nothing that it does not.
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "programs/input/yaml.h"
#include "tests/runtime/service/http_get.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::dashboard_test {
namespace {

using nlohmann::json;

std::string file(const std::string& name) {
  std::ifstream in(name);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Every text below keys that hold queries.
void collect_queries(const json& node, std::string& all) {
  for (const auto& [key, value] : node.items()) {
    if ((key == "expr" || key == "query") && value.is_string())
      all += value.get<std::string>() + "\n";
    if (value.is_structured()) collect_queries(value, all);
  }
}

// A histogram is asked for by its series.
std::set<std::string> metrics_in(const std::string& queries) {
  const std::regex name("batchflow_[a-z_]+"), series("_seconds_(bucket|sum|count)$");
  std::set<std::string> all;
  for (auto at = std::sregex_iterator(queries.begin(), queries.end(), name);
       at != std::sregex_iterator(); ++at)
    all.insert(std::regex_replace(at->str(), series, "_seconds"));
  return all;
}

std::set<std::string> exported_by(int port) {
  const std::string metrics = get(port, "/metrics");
  const std::regex type("# TYPE (batchflow_[a-z_]+) ");
  return {std::sregex_token_iterator(metrics.begin(), metrics.end(), type, 1), {}};
}

std::vector<std::string> missing(const std::set<std::string>& shown,
                                 const std::set<std::string>& exported) {
  std::vector<std::string> all;
  std::set_difference(shown.begin(), shown.end(), exported.begin(), exported.end(),
                      std::back_inserter(all));
  return all;
}

TEST_CASE("alerts ask for what is exported, and say what to do") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  config.open_datasets = true;
  const LiveService service(config);
  const config::ConfigNode root = input::read_yaml_file("configs/grafana/alerts.yaml");
  const config::ConfigNode& rules = *root.find("groups")->list.at(0).find("rules");
  REQUIRE(rules.list.size() > 5);
  std::string queries;
  for (const config::ConfigNode& rule : rules.list) {
    CAPTURE(rule.find("alert")->scalar);
    queries += rule.find("expr")->scalar + "\n";
    CHECK(rule.find("labels")->find("severity"));
    for (const char* key : {"summary", "description"})
      CHECK(rule.find("annotations")->find(key)->scalar.size() > 10);
  }
  CHECK(missing(metrics_in(queries), exported_by(service.http_port())) ==
        std::vector<std::string>{});
}

TEST_CASE("every metric of the dashboard is exported, and stalls can be summed by stage") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  std::filesystem::create_directory(folder.path() / "rows");
  write_rows(folder.path() / "rows" / "rows.npy", 640, 16);
  config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0, {}});
  const LiveService service(config);
  const std::string text = file("configs/grafana/batchflow.json");
  const json dashboard = json::parse(text, nullptr, false);
  REQUIRE(dashboard.is_object());
  CHECK(dashboard.at("title") == "BatchFlow");
  std::set<int> ids;
  for (const json& panel : dashboard.at("panels"))
    CHECK(ids.insert(panel.at("id").get<int>()).second);
  std::string queries;
  collect_queries(dashboard, queries);
  const std::set<std::string> shown = metrics_in(queries);
  const std::set<std::string> exported = exported_by(service.http_port());
  CHECK(shown.size() > 20);
  for (const char* name : {"spill_read_bytes_total", "step_seconds_total", "policy_refusals_total"})
    CHECK(shown.count(fmt::format("batchflow_{}", name)) == 1);
  CHECK(missing(shown, exported) == std::vector<std::string>{});
  // The check would notice.
  CHECK(missing(metrics_in("rate(batchflow_no_such_total[1m])"), exported) ==
        std::vector<std::string>{"batchflow_no_such_total"});

  const std::string metrics = get(service.http_port(), "/metrics");
  for (const char* stage : {"storage", "preparation", "delivery", "room"})
    CHECK(metrics.find(fmt::format("\nbatchflow_stall_seconds_total{{stage=\"{}\"}} ", stage)) !=
          std::string::npos);
  // Counters end in _total, and nothing else does.
  const std::regex type("# TYPE (batchflow_[a-z_]+) ([a-z]+)");
  for (auto at = std::sregex_iterator(metrics.begin(), metrics.end(), type);
       at != std::sregex_iterator(); ++at) {
    CAPTURE(at->str(1));
    CHECK(at->str(1).ends_with("_total") == (at->str(2) == "counter"));
  }
}

}  // namespace
}  // namespace batchflow::test::dashboard_test
