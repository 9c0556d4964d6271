// Pipelines with plugins, compiled from text and carried out on single samples.
#pragma once

#include <dirent.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "runtime/step/step_plugin.h"
#include "tests/runtime/prepare/harness.h"

namespace batchflow::test {

inline std::string plugin(std::string_view name) {
  return fmt::format("{}/{}.so", BATCHFLOW_TEST_STEPS, name);
}

inline std::unique_ptr<prepare::Pipeline> compile_steps(const std::string& steps,
                                                        const sources::SampleIndex& dataset,
                                                        const step::StepSettings& settings = {}) {
  return prepare::compile_pipeline(input::parse_yaml("name: test\nsteps:\n" + steps, "test.yaml"),
                                   dataset, settings);
}

// Why it cannot be compiled.
inline std::string refused(const std::string& steps, const sources::SampleIndex& dataset,
                           const step::StepSettings& settings = {}) {
  try {
    compile_steps(steps, dataset, settings);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

inline constexpr std::size_t kColumns = 16;

// Rows of numbers, of which row k begins with 7 k.
inline FakeDataset rows_dataset() {
  batch::BatchSpec spec{{{"data", batch::ElementType::i64, {kColumns}, false}}};
  return FakeDataset(sources::RecordKind::rows, spec, {kColumns * 8, kColumns * 8}, false);
}
inline std::vector<std::int64_t> row(std::int64_t key) {
  std::vector<std::int64_t> numbers(kColumns);
  for (std::size_t i = 0; i < kColumns; ++i) numbers[i] = (key + static_cast<std::int64_t>(i)) * 7;
  return numbers;
}
inline std::string mischief(std::string_view what, std::string_view more = "") {
  return fmt::format("- {{plugin: {}, do: {}{}}}\n", plugin("mischief"), what, more);
}

// One thread that prepares rows by a pipeline.
class Rows {
 public:
  explicit Rows(const std::string& steps, const step::StepSettings& settings = {})
      : dataset_(rows_dataset()), pipeline_(compile_steps(steps, dataset_, settings)) {}

  prepare::Prepared prepare(std::int64_t key) {
    const std::vector<std::int64_t> numbers = row(key);
    slot_ = Slot(*pipeline_);
    Sample sample{std::as_bytes(std::span(numbers))};
    sample.id = SampleId(static_cast<std::uint64_t>(key));
    return test::prepare(*preparer_, *pipeline_, sample, slot_);
  }
  // Of the last one.
  std::vector<std::int64_t> made() {
    const std::vector<std::byte> bytes = slot_.field(0);
    std::vector<std::int64_t> numbers(bytes.size() / 8);
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }
  std::string problem() const { return std::string(preparer_->problem()); }
  step::StepCounters counters() const { return pipeline_->plugins()[0]->counters(); }
  const prepare::Pipeline& pipeline() const { return *pipeline_; }

 private:
  FakeDataset dataset_;
  std::unique_ptr<prepare::Pipeline> pipeline_;
  std::unique_ptr<prepare::Preparer> preparer_ = prepare::make_preparer();
  Slot slot_{*pipeline_};
};

inline std::size_t entries(const std::string& folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}
inline std::size_t open_files() {
  return entries("/proc/self/fd");
}
// Processes that this one has started and that are there, as zombies too.
inline std::vector<pid_t> children() {
  std::vector<pid_t> all;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "children");
    for (pid_t one; file >> one;) all.push_back(one);
  }
  return all;
}

}  // namespace batchflow::test
