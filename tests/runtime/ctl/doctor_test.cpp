// The judgement alone, on answers made up: each stage, numbers, and answers that are not whole.
#include "runtime/ctl/reasons.h"

#include "doctest/doctest.h"
#include "runtime/ctl/ideal.h"

namespace batchflow::test::doctor_test {
using ctl::Diagnosis;
using nlohmann::json;

namespace {

json status(double up_s, double samples, json stall_s) {
  return {{"up_s", up_s},
          {"storage", "io_uring"},
          {"cores", 8},
          {"workers", 2},
          {"workers_most", 2},
          {"cache_bytes", 1 << 30},
          {"files_most", 100000},
          {"prepared_samples", samples},
          {"preparing_s", up_s * 2},
          {"read_samples", samples},
          {"storage_busy_s", up_s / 2},
          {"samples", samples},
          {"datasets", {{{"name", "d"}, {"samples", 1000}, {"bytes", 4e9}}}},
          {"jobs",
           {{{"id", 1},
             {"name", "train"},
             {"dataset", "d"},
             {"running", true},
             {"ranks", 2},
             {"ranks_here", 2},
             {"batch_samples", 32},
             {"samples", samples},
             {"stall_s", std::move(stall_s)}}}}};
}

// Ten seconds with two ranks, so that waiting is a part of twenty seconds.
Diagnosis judged(const json& stall_s, double samples = 1000) {
  const auto found = ctl::diagnose(status(10, 0, json::object()), status(20, samples, stall_s), "");
  REQUIRE(found.size() == 1);
  return found[0];
}

bool has(const std::vector<std::string>& texts, const std::string& part) {
  for (const std::string& text : texts)
    if (text.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("a job that only waits is not said to be given nothing") {
  const Diagnosis waiting = judged({{"storage", 20.0}});
  CHECK(has(waiting.facts, "it takes 100 samples/s, and computes next to nothing"));
  CHECK(has(judged({{"storage", 20.0}}, 0).facts, "it got no batch in this time"));
}

TEST_CASE("what a perfect loader would gain is judged by the waits") {
  // Of two ranks, in ten seconds.
  const auto gain = [](double steps, double stalled) {
    json before = status(10, 0, json::object()), now = status(20, 1000, json::object());
    before["jobs"][0].update({{"consumed_batches", 7}, {"wait_s", 1.5}, {"compute_s", 3.0}});
    now["jobs"][0].update({{"consumed_batches", 7 + 2 * steps},
                           {"wait_s", 1.5 + 20 * stalled},
                           {"compute_s", 3.0 + 20 * (1 - stalled)}});
    return ctl::gain_by_waits(before, now, "train");
  };
  CHECK(gain(100, 0.75).ratio() == doctest::Approx(3));
  CHECK(ctl::gain_text(gain(100, 0.75)) ==
        "by its waits, a perfect loader would gain 300 %: 25.0 ms a step in place of 100 ms; less, "
        "if its loop runs ahead of a GPU");
  CHECK(ctl::gain_text(gain(100, 0)).find("would gain 0 %") != std::string::npos);
  for (const auto& [steps, stalled] : {std::pair(0.0, 0.5), std::pair(100.0, 1.0)}) {
    CHECK_FALSE(gain(steps, stalled).is_known());
    CHECK(ctl::gain_text(gain(steps, stalled)) == "what a perfect loader would gain is not known");
    CHECK_FALSE(ctl::gain_json(gain(steps, stalled)).contains("gain_ratio"));
  }
  ctl::IdealGain measured = gain(100, 0.75);
  measured.ideal_step_s = 0.05;
  measured.steps = 40;
  CHECK(
      ctl::gain_text(measured) ==
      "a perfect loader would gain 100 %: 50.0 ms a step in place of 100 ms, measured on 40 steps "
      "that were given one batch");
}

TEST_CASE("the stage that took most of the waits is the slow link") {
  const Diagnosis storage = judged({{"storage", 10.0}, {"preparation", 2.0}});
  CHECK(storage.link == "storage");
  CHECK(storage.stalled == doctest::Approx(0.6));
  CHECK(has(storage.facts, "it waits 60 % of its time: 50 % storage, 10 % preparation"));
  CHECK(has(storage.facts, "gives 100 samples/s"));
  CHECK(has(storage.facts, "busy 50 % of the time"));
  CHECK(has(storage.facts, "it takes 100 samples/s, and would take 250"));
  CHECK(has(storage.advice,
            "the dataset has 3.7 GiB, and the cache 1.0 GiB in all (--memory, or --spill "
            "for a second tier on a local drive)"));
  CHECK_FALSE(has(storage.advice, "batchflowctl pack"));  // 4 MB a sample are no small files

  const Diagnosis preparation = judged({{"storage", 1.0}, {"preparation", 9.0}});
  CHECK(preparation.link == "preparation");
  // 20 s of work made 1000 samples; 200 samples/s at 20 ms want four workers.
  CHECK(has(preparation.facts, "2 workers of at most 2 were busy 100 % of the time"));
  CHECK(has(preparation.facts, "a sample takes 20.00 ms"));
  CHECK(has(preparation.advice, "wants 4, and the machine has 8 cores (--workers 4)"));

  CHECK(judged({{"delivery", 9.0}}).link == "delivery");
  CHECK(judged({{"room", 9.0}}).link == "room");
  CHECK_FALSE(has(storage.facts, "records"));
  const Diagnosis live = judged({{"records", 8.0}, {"room", 1.0}});
  CHECK(live.link == "records");
  CHECK(has(live.facts,
            "it waits 45 % of its time: 0 % storage, 0 % preparation, 0 % delivery, "
            "5 % room, 40 % records"));
  CHECK(has(live.facts, "it has had all records of 'd' that there were"));
  CHECK(has(live.advice, "producers that send more"));
}

TEST_CASE("a twentieth of the time is no stall; all of it is not divided by nothing") {
  CHECK(judged({{"storage", 0.9}}).link == "none");
  CHECK_FALSE(judged({{"storage", 0.9}}).is_held_up());
  CHECK(judged({{"storage", 1.1}}).link == "storage");
  const Diagnosis all = judged({{"storage", 20.0}}, 0);
  CHECK(all.stalled == 1);
  CHECK(has(all.facts, "it got no batch in this time"));
}

TEST_CASE("answers of another version, or empty ones, are no crash") {
  CHECK(ctl::diagnose(json::object(), json::object(), "").empty());
  CHECK(ctl::diagnose({{"jobs", 3}}, {{"jobs", {1, "x", nullptr}}}, "").empty());
  const json odd = {{"jobs", {{{"id", 1}, {"name", "train"}, {"stall_s", 7}}}}};
  CHECK(ctl::diagnose(odd, odd, "")[0].link == "start");
  CHECK(ctl::node_remarks(json::object(), json::object()).empty());
  CHECK(ctl::explain_text(json::object(), json::object(), "") == "no jobs\n");
}

TEST_CASE("problems of the node are listed, too") {
  json before = status(10, 0, json::object());
  json now = status(20, 1000, json::object());
  CHECK(ctl::node_remarks(before, now).empty());
  now["files_most"] = 1024;
  now["storage"] = "pread: 8 threads, since io_uring is refused: EPERM";
  now["corrupt_samples"] = 3;
  now["prepared_blocks"] = 100;
  now["remakes"] = 20;
  const auto remarks = ctl::node_remarks(before, now);
  CHECK(remarks.size() == 4);
  CHECK(has(remarks, "20 % of the blocks"));
}

TEST_CASE("the node of a cluster that is slower than the others is named, and where it is") {
  // `link_s`: how long it takes for a gigabyte from each of the others.
  const auto node = [](int number, double read_s, std::vector<double> link_s, double prepare_s,
                       double gigabytes = 1) {
    json links = json::array();
    for (int other = 1; other <= 3; ++other) {
      if (other == number) continue;
      const double took = link_s[static_cast<std::size_t>(other - 1)];
      links.push_back(
          {{"node", other}, {"bytes", 1e9 * gigabytes}, {"busy_ns", 1e9 * took * gigabytes}});
    }
    return json{{"node", number},
                {"name", fmt::format("n{}", number)},
                {"ready", true},
                {"read_bytes", 1e9 * gigabytes},
                {"store_busy_ns", 1e9 * read_s * gigabytes},
                {"links", links},
                {"prepared_samples", 1000 * gigabytes},
                {"preparing_ns", 1e9 * prepare_s * gigabytes}};
  };
  const std::vector<double> all = {1, 1, 1};
  const auto idle = [&](int number) { return node(number, 0, all, 0, 0); };
  const json before = {{"nodes", {idle(1), idle(2), idle(3)}}};
  const json alike = {
      {"nodes", {node(1, 1, all, 1), node(2, 1.5, {1.4, 0, 1}, 1.9), node(3, 1, all, 1)}}};
  CHECK(ctl::fleet_remarks(before, alike).empty());
  const json disk = {{"nodes", {node(1, 1, all, 1), node(2, 1, all, 1), node(3, 3, all, 1)}}};
  REQUIRE(ctl::fleet_remarks(before, disk).size() == 1);
  CHECK(has(ctl::fleet_remarks(before, disk), "node 'n3' reads"));
  // All that goes to and from n1 is slow, also what n2 asks of it.
  const json link = {
      {"nodes", {node(1, 1, {0, 5, 5}, 1), node(2, 1, {5, 0, 1}, 1), node(3, 1, {5, 1, 0}, 1)}}};
  REQUIRE(ctl::fleet_remarks(before, link).size() == 1);
  CHECK(has(ctl::fleet_remarks(before, link), "to and from node 'n1' moves at"));
  const json cores = {{"nodes", {node(1, 1, all, 1), node(2, 1, all, 4), node(3, 1, all, 1)}}};
  REQUIRE(ctl::fleet_remarks(before, cores).size() == 1);
  CHECK(has(ctl::fleet_remarks(before, cores), "node 'n2' takes 4.00 ms"));
  const json lost = {{"nodes", {node(1, 1, all, 1), node(2, 1, all, 1)}}};
  CHECK(has(ctl::fleet_remarks(before, lost), "node 'n3' was lost"));
  CHECK(ctl::fleet_remarks(json::object(), json::object()).empty());
  CHECK(ctl::fleet_remarks(json::object(), {{"nodes", {1, "x", nullptr}}}).empty());
}

}  // namespace batchflow::test::doctor_test
