// The simulator beside published results: ./dev bench validation [FILE...]
//
// Runs every case of configs/validation and writes docs/validation.md: per row the published
// figure, the simulated one, and the signed error. With files as arguments only those are run, and
// printed. The exit code is 1 if a row is outside of what its case accepts, or, with `--check`, if
// the document differs from these runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/base/config_value.h"
#include "programs/input/yaml.h"
#include "programs/output/output.h"
#include "programs/output/terminal.h"
#include "sim/forked_runs.h"
#include "sim/simulate.h"
#include "tools/bench/validation/case.h"

namespace batchflow::validation {
namespace {

namespace fs = std::filesystem;
using Overrides = std::vector<std::string>;

// Every run of a case once, for all rows that use it.
class Runs {
 public:
  explicit Runs(const Case& one) : case_(one) {
    for (const Row& row : one.rows) {
      for (const Overrides& set : {row.set, with(row.set, row.over)}) {
        add(set);
        add(with(set, row.minus));
      }
    }
  }

  std::vector<sim::ForkedRuns::Work> works() const {
    std::vector<sim::ForkedRuns::Work> works;
    for (const Overrides& set : order_) {
      for (std::uint64_t seed = 1; seed <= case_.seeds; ++seed) works.push_back(work(set, seed));
    }
    return works;
  }
  void take(const Overrides& set, const std::string& text) {
    results_[set].push_back(nlohmann::json::parse(text)["runs"][0]);
  }
  const std::vector<Overrides>& all() const { return order_; }
  std::uint64_t seeds() const { return case_.seeds; }

  double figure(const Row& row) const {
    double value = difference(row, row.set);
    if (!row.over.empty()) value = difference(row, with(row.set, row.over)) / value;
    if (row.inverse) value = 1 / value;
    return value * row.factor;
  }

 private:
  void add(const Overrides& set) {
    if (std::find(order_.begin(), order_.end(), set) == order_.end()) order_.push_back(set);
  }

  sim::ForkedRuns::Work work(const Overrides& set, std::uint64_t seed) const {
    return [this, &set, seed](const sim::ForkedRuns::ReportProgress&) {
      config::ConfigNode tree = case_.scenario;
      input::apply_override(tree, fmt::format("seed={}", seed));
      for (const std::string& text : set) input::apply_override(tree, text);
      const std::vector<output::RunResult> runs = {sim::simulate(input::read_scenario(tree), {})};
      if (!runs[0].failure.empty()) throw ConfigError(case_.title + ": " + runs[0].failure);
      for (const output::JobResult& job : runs[0].jobs) {
        if (!job.refusal.empty()) throw ConfigError(case_.title + ": " + job.refusal);
      }
      return output::text_of(output::results_json(runs, "validation", ""));
    };
  }

  static Overrides with(Overrides set, const Overrides& more) {
    set.insert(set.end(), more.begin(), more.end());
    return set;
  }

  double difference(const Row& row, const Overrides& set) const {
    const double less = row.minus.empty() ? 0 : mean(with(set, row.minus), row.measure);
    return mean(set, row.measure) - less;
  }

  double mean(const Overrides& set, const std::string& path) const {
    double sum = 0;
    for (const nlohmann::json& run : results_.at(set)) sum += measure(run, path);
    return sum / static_cast<double>(case_.seeds);
  }

  double measure(const nlohmann::json& run, const std::string& path) const {
    const nlohmann::json* at = &run;
    std::istringstream parts(path);
    for (std::string part; std::getline(parts, part, '.');) {
      const bool index = at->is_array() && part.find_first_not_of("0123456789") == part.npos;
      if (index && std::stoul(part) < at->size()) {
        at = &(*at)[std::stoul(part)];
      } else if (at->is_object() && at->contains(part)) {
        at = &(*at)[part];
      } else {
        throw ConfigError(
            fmt::format("{}: results have no '{}'; write a path in them, as aggregate.hit_ratio",
                        case_.title, path));
      }
    }
    if (!at->is_number())
      throw ConfigError(fmt::format("{}: '{}' is not a number", case_.title, path));
    return at->get<double>();
  }

  const Case& case_;
  std::vector<Overrides> order_;
  std::map<Overrides, std::vector<nlohmann::json>> results_;  // a run for each seed
};

// Relative to the published figure, or to the nearer end of a range; 0 within it.
double error_of(const Row& row, double value) {
  const double nearest = std::clamp(value, row.published, row.published_most);
  return nearest == 0 ? value : (value - nearest) / std::abs(nearest);
}

const char* text_of(Role role) {
  constexpr const char* kNames[] = {"calibrated", "predicted", "closed form", "no bound"};
  return kNames[static_cast<std::size_t>(role)];
}

// Four digits, as in the document.
std::string number(double value) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size >= 1e15 || size < 1e-4) return fmt::format("{:.3e}", value);
  const int digits = std::max(0, 3 - static_cast<int>(std::floor(std::log10(size))));
  return fmt::format("{:.{}f}", value, digits);
}

struct Table {
  std::string text;
  int outside = 0;
};

Table table_of(const Case& one, const Runs& runs) {
  Table table;
  table.text = fmt::format("## {}\n\n{}\n", one.title, one.about);
  table.text += fmt::format("\n| {} | published | simulated | error | |\n|---|---|---|---|---|\n",
                            one.unit.empty() ? "" : "in " + one.unit);
  double sum = 0;
  int predicted = 0;
  for (const Row& row : one.rows) {
    const double value = runs.figure(row);
    const double error = error_of(row, value);
    const bool bound = row.role == Role::predicted || row.role == Role::derived;
    const bool outside = bound && !(std::abs(error) <= row.accept + 1e-12);
    if (row.role == Role::predicted) {
      sum += std::abs(error);
      ++predicted;
    }
    table.outside += outside;
    const std::string published =
        row.published == row.published_most
            ? number(row.published)
            : fmt::format("{} to {}", number(row.published), number(row.published_most));
    table.text += fmt::format("| {} | {} | {} | {:+.1f} % | {}{}{} |\n", row.name, published,
                              number(value), error * 100, text_of(row.role),
                              bound ? fmt::format(", at most {:g} %", row.accept * 100) : "",
                              outside ? ": **outside**" : "");
  }
  if (predicted > 0 && one.mean_accept > 0) {
    const double mean = sum / predicted;
    const bool outside = mean > one.mean_accept;
    table.outside += outside;
    table.text += fmt::format("\nMean error of the predicted rows: {:.1f} %, at most {:g} %{}.\n",
                              mean * 100, one.mean_accept * 100, outside ? ": **outside**" : "");
  }
  table.text += '\n';
  return table;
}

constexpr const char* kHead =
    "# What the simulator says about published results\n\n"
    "Written by `./dev bench validation` from the cases in `configs/validation/`. A case is\n"
    "YAML alone: a set-up, and what its runs are compared with. Its parameters were chosen to\n"
    "fit its *calibrated* rows; *predicted* rows were not looked at for that. *Closed form*\n"
    "rows are compared with what the set-up must give by arithmetic. Rows with *no bound* are\n"
    "shown, but not judged. No policy was tuned on any row. Errors are relative to what was\n"
    "published, or to the nearer end of a range.\n\n";

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Whether the words are the same, figures differ by at most a hundredth, and errors (they have a
// sign) by at most a point: other versions of SimGrid differ in the last digits.
bool says_the_same(const std::string& one, const std::string& other) {
  std::istringstream left(one), right(other);
  std::string a, b;
  while (left >> a) {
    if (!(right >> b)) return false;
    if (a == b) continue;
    char* end_a = nullptr;
    char* end_b = nullptr;
    const double x = std::strtod(a.c_str(), &end_a);
    const double y = std::strtod(b.c_str(), &end_b);
    const bool numbers = *end_a == 0 && *end_b == 0;
    const bool errors = a[0] == '+' || a[0] == '-';
    if (!numbers || std::abs(x - y) > (errors ? 1 : std::abs(x) / 100)) return false;
  }
  return !(right >> b);
}

int run(std::vector<fs::path> files, bool check) {
  const fs::path root = BATCHFLOW_ROOT;
  const bool all = files.empty();
  if (all) {
    for (const auto& entry : fs::directory_iterator(root / "configs" / "validation")) {
      if (entry.path().extension() == ".yaml") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  }
  std::vector<Case> cases;
  for (const fs::path& file : files) cases.push_back(read_case(file.string()));
  std::vector<Runs> runs(cases.begin(), cases.end());
  std::vector<sim::ForkedRuns::Work> works;
  for (const Runs& one : runs) {
    for (auto& work : one.works()) works.push_back(std::move(work));
  }
  output::ProgressBar bar(fmt::format("validating: {} cases, {} runs", cases.size(), works.size()));
  const auto outcomes =
      sim::ForkedRuns::run(works, std::max(1u, std::thread::hardware_concurrency()),
                           [&](const sim::RunProgress& so) { bar.show(so.done, ""); });
  std::size_t at = 0;
  for (Runs& one : runs) {
    for (const Overrides& set : one.all()) {
      for (std::uint64_t seed = 1; seed <= one.seeds(); ++seed) {
        const auto& outcome = outcomes[at++];
        if (!outcome.done) throw ConfigError(outcome.problem + outcome.failure);
        one.take(set, outcome.text);
      }
    }
  }
  std::string document = kHead;
  int outside = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Table table = table_of(cases[i], runs[i]);
    document += table.text;
    outside += table.outside;
  }
  document.pop_back();
  const fs::path written = root / "docs" / "validation.md";
  if (all && check) {
    if (!says_the_same(read_text(written), document)) {
      fmt::print(stderr,
                 "docs/validation.md differs from these runs; run ./dev bench validation\n");
      return 1;
    }
  } else if (all) {
    output::write_file_atomically(written.string(), document, [] {});
    fmt::print("docs/validation.md: {} cases, {} runs, {} rows outside of what is accepted\n",
               cases.size(), works.size(), outside);
  } else {
    fmt::print("{}", document.substr(std::string(kHead).size()));
  }
  return outside > 0 ? 1 : 0;
}

}  // namespace
}  // namespace batchflow::validation

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  bool check = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--check") {
      check = true;
    } else if (argv[i][0] == '-') {
      std::fprintf(stderr,
                   "bench_validation: unknown option '%s'; write --check, or cases' files\n",
                   argv[i]);
      return 2;
    } else {
      files.emplace_back(argv[i]);
    }
  }
  try {
    return batchflow::validation::run(files, check);
  } catch (const batchflow::ConfigError& error) {
    std::fprintf(stderr, "bench_validation: %s\n", error.what());
    return 2;
  }
}
