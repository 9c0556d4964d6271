// What the page shows of figures that are known.
#include <unistd.h>

#include <string>

#include "doctest/doctest.h"
#include "runtime/protocol/secret.h"
#include "runtime/service/http/page_key.h"
#include "runtime/service/http/snapshot.h"

namespace batchflow::test::status_page_test {
namespace {

using namespace std::chrono_literals;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int count(const std::string& text, const std::string& part) {
  int all = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++all;
  return all;
}

// A job that computed half of its time, and waited a tenth for each stage.
service::Jobs::Status job_that_waits() {
  service::Jobs::Status job;
  job.id = JobId(3);
  job.name = "night";
  job.dataset = "pets";
  job.pipeline = "imagenet-train";
  job.pipeline_id = PipelineId(1);
  job.running = true;
  job.samples = 5000;
  job.computed = 50s;
  for (std::size_t i = 0; i < service::kStages; ++i)
    job.stalls[static_cast<service::Stage>(i)] = 10s;
  return job;
}

TEST_CASE("the bar of a job has a part for each stage, as long as the job waited for it") {
  service::Snapshot now;
  now.jobs.push_back(job_that_waits());
  const std::string page = service::status_page(now);
  CHECK(has(page, ">50.0 %<svg class=\"bar\""));
  int at = 0;
  for (const char* stage : {"storage", "preparation", "delivery", "room", "records"}) {
    CAPTURE(stage);
    CHECK(has(page, "<rect class=\"" + std::string(stage) + "\" x=\"" + std::to_string(10 * at++) +
                        ".00\" width=\"10.00\" height=\"1\"/>"));
    CHECK(has(page, std::string(stage) + " 10.0 %"));
    CHECK(has(std::string(service::page_style()), "." + std::string(stage) + " { fill: "));
  }
}

TEST_CASE("the page says what a job does now, not since it began") {
  service::Snapshot now;
  now.jobs.push_back(job_that_waits());
  now.counters = {Instant{} + 100s, 5000, {}, 50s};
  CHECK(has(service::status_page(now), "<td data-column=\"samples/s now\"><div>-</div>"));
  now.jobs_before = {Instant{} + 90s, {{3, {4000, 42s, 48s}}}};  // 8 s more of waits, 2 s of steps
  CHECK(has(service::status_page(now), "<div>100<small>80 % stalled</small></div>"));
  now.jobs[0].waiting = 1;
  now.jobs[0].waits = 7s;
  now.jobs[0].waits_for = service::Stage::storage;
  CHECK(has(service::status_page(now), ">0<small>waits for storage, 7 s</small>"));
}

TEST_CASE("the page has the last minutes when it is loaded, and figures of now are of seconds") {
  service::Snapshot now;
  CHECK(has(service::status_page(now), "There is no history yet."));
  // 50 samples a second, and then none, while all ranks wait for memory.
  service::HistoryPoint point;
  for (int i = 0; i < 100; ++i) {
    point.at = Instant{} + i * 2s;
    point.samples += i < 90 ? 100 : 0;
    point.computed += i < 90 ? 2s : 0s;
    point.stalls[service::Stage::room] += i < 90 ? 0s : 2s;
    now.history.push_back(point);
  }
  now.counters = point;
  now.counters.at += 1s;
  const std::string page = service::status_page(now);
  CHECK(has(page, "<b>0</b><span>samples/s now</span>"));
  CHECK(has(page, "<b>100 %</b><span>stalled now</span>"));
  CHECK(has(page, "samples/s, at most 50"));
  CHECK(count(page, "<polygon class=\"pace\"") == 1);
  CHECK(count(page, "<polygon class=\"room\"") == 1);
  CHECK(has(page, "300.0,60.0 "));  // now, at the right edge, is nothing
}

TEST_CASE("the page of an agent has what its own node did in the last minutes") {
  service::AgentSnapshot now;
  CHECK(has(service::status_page(now), "There is no history yet."));
  for (int i = 0; i < 100; ++i) {
    const auto seconds = static_cast<std::uint64_t>(2 * i);
    now.delivered.push_back({Instant{} + i * 2s, 50 * seconds, {}, {}});
    now.prepared.push_back({Instant{} + i * 2s, i < 50 ? 20 * seconds : 2000, {}, {}});
  }
  const std::string page = service::status_page(now);
  CHECK(has(page, "samples/s delivered to this node's ranks, at most 50<"));
  CHECK(has(page, "samples/s prepared on this node, at most 20<"));
  CHECK(count(page, "<polygon class=\"pace\"") == 2);
  CHECK(has(page, "300.0,0.0 "));   // batches are delivered still
  CHECK(has(page, "300.0,60.0 "));  // and none is prepared any more
}

TEST_CASE("the service keeps a bounded history") {
  service::History history;
  CHECK(history.is_due(Instant{}));
  for (int i = 0; i < 1000; ++i) {
    const Instant at = Instant{} + i * 2s;
    history.add({at, 0, {}, 0s}, {at, {}});
    CHECK_FALSE(history.is_due(at + 1s));
    CHECK(history.is_due(at + 2s));
  }
  CHECK(history.points().size() == service::History::kPoints);
  CHECK(history.points().back().at == Instant{} + 1998s);
  CHECK(history.jobs_before().at == Instant{} + 1990s);
}

TEST_CASE("counters that fall, as when an agent is lost, are no negative pace") {
  service::HistoryPoint before, now;
  before.samples = 100;
  before.stalls[service::Stage::delivery] = 5s;
  now.at = before.at + 10s;
  now.computed = 1s;
  const service::Pace pace = service::pace_between(before, now);
  CHECK(pace.samples_per_s == 0);
  for (const double one : pace.stalled) CHECK(one == 0);
}

TEST_CASE("pipelines are shown by their steps, and datasets by their paths where these are known") {
  service::Snapshot now;
  service::Jobs::Status job = job_that_waits();
  now.job_steps[1] = {false, {"decode", "resize"}};
  now.jobs.push_back(job);
  job.pipeline = "#0123456789abcdef";
  job.pipeline_id = PipelineId(2);
  now.job_steps[2] = {true, {"clip"}};
  now.jobs.push_back(job);
  job.pipeline_id = PipelineId(4);
  now.job_steps[4] = {true, {}};
  now.jobs.push_back(job);
  service::Snapshot::Dataset pets;
  pets.name = "pets";
  pets.path = "/data/pets";
  pets.version = 0xabcdef;
  service::Snapshot::Dataset stored = pets;
  stored.name = "stored";
  stored.path = "https://example.org/pets?token=1234";
  service::Snapshot::Dataset brought = pets;
  brought.name = "/home/ann/secret";
  brought.path = brought.name;
  brought.brought = true;
  now.datasets = {pets, stored, brought};
  now.brought = {{brought.name, 2}};
  const std::string page = service::status_page(service::as_seen_by_any_program(now));
  CHECK(has(page, "imagenet-train<small>decode, resize</small>"));
  CHECK(has(page, "brought by the job<small>clip</small>"));
  CHECK(has(page, "brought by the job<small>samples as stored</small>"));
  CHECK(has(page, ">/data/pets<"));
  CHECK(has(page, ">https://example.org/pets<"));
  CHECK(has(page, ">folder 2<"));
  CHECK(has(page, ">only for its user<"));
  for (const char* hidden : {"secret", "token", "0123456789abcdef", "abcdef"})
    CHECK_FALSE_MESSAGE(has(page, hidden), hidden);
}

TEST_CASE("only the service's user and root are told the key of the page, and no page has it") {
  service::Snapshot now;
  now.page = "http://127.0.0.1:1/";
  now.page_key = "0123";
  const auto has_key = [](const service::Snapshot& seen) {
    return has(service::to_json(seen), "\"http://127.0.0.1:1/?key=0123\"");
  };
  CHECK(has_key(service::as_seen_by(geteuid(), now)));
  CHECK(has_key(service::as_seen_by(0, now)));
  CHECK_FALSE(has_key(service::as_seen_by(geteuid() + 1, now)));
  CHECK_FALSE(has_key(service::as_seen_by_any_program(now)));
  CHECK_FALSE(has(service::status_page(now), "0123"));
  CHECK_FALSE(has(service::metrics_text(now), "0123"));
}

TEST_CASE("a key is shown whole, or is wrong") {
  using service::key_shown;
  using service::KeyShown;
  const std::string key = protocol::make_secret();
  CHECK(key.size() == 32);
  CHECK(key != protocol::make_secret());
  CHECK(key_shown("/", key) == KeyShown::none);
  CHECK(key_shown("/?", key) == KeyShown::none);
  CHECK(key_shown("/?other=1&monkey=2", key) == KeyShown::none);
  CHECK(key_shown("/?key=" + key, key) == KeyShown::right);
  CHECK(key_shown("/?a=1&key=" + key + "&b", key) == KeyShown::right);
  CHECK(key_shown("/?key=" + key + "0", key) == KeyShown::wrong);
  CHECK(key_shown("/?key=", key) == KeyShown::wrong);
  CHECK(key_shown("/?key=", "") == KeyShown::wrong);  // the service has none
}

TEST_CASE("what users have written is text, wherever it stands") {
  const std::string hostile = "<img src=x onerror=\"alert('&')\">";
  service::Snapshot now;
  service::Jobs::Status job = job_that_waits();
  job.name = job.dataset = job.pipeline = hostile;
  now.jobs.push_back(job);
  job.pipeline_id = PipelineId(2);
  now.job_steps[2] = {false, {hostile}};
  now.jobs.push_back(job);
  service::Snapshot::Dataset dataset;
  dataset.name = dataset.path = hostile;
  now.datasets.push_back(dataset);
  now.opening.push_back(hostile);
  service::NodeStatus node;
  node.name = hostile;
  now.nodes.push_back(node);
  const std::string page = service::status_page(now);
  CHECK_FALSE(has(page, "<img"));
  CHECK(count(page, "&lt;img src=x onerror=&quot;alert('&amp;')&quot;&gt;") == 11);
}

}  // namespace
}  // namespace batchflow::test::status_page_test
