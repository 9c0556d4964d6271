// Compiles pipelines from text and carries them out on single samples.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/check.h"
#include "programs/input/yaml.h"
#include "runtime/prepare/kernels.h"
#include "runtime/prepare/pipeline.h"
#include "tests/runtime/prepare/dataset.h"

namespace batchflow::test {

inline FakeDataset files_dataset() {
  return FakeDataset(sources::RecordKind::whole, {}, {100'000});
}

inline std::unique_ptr<prepare::Pipeline> compile(const config::ConfigNode& node,
                                                  const sources::SampleIndex& dataset) {
  std::unique_ptr<prepare::Pipeline> pipeline;
  config::read_config(node, [&](config::ConfigSection& section) {
    pipeline = prepare::compile_pipeline(section, dataset);
  });
  return pipeline;
}

// `steps` as they stand below `steps:`, one a line.
inline std::unique_ptr<prepare::Pipeline> compile(
    std::string_view steps, const sources::SampleIndex& dataset = files_dataset()) {
  return compile(input::parse_yaml("name: test\nsteps:\n" + std::string(steps), "test.yaml"),
                 dataset);
}

// A slot of a few samples, and what became of the last one.
class Slot {
 public:
  explicit Slot(const prepare::Pipeline& pipeline, std::uint32_t samples = 1)
      : layout_(pipeline.spec(), samples), memory_(static_cast<std::size_t>(layout_.bytes)) {}

  batch::BlockWriter writer() { return {layout_, memory_.data()}; }
  // The bytes of a dense field.
  std::vector<std::byte> field(std::size_t field, std::uint32_t place = 0) {
    const std::byte* row = writer().row(field, place);
    return {row, row + layout_.fields[field].row_bytes};
  }
  // The whole slot.
  const std::vector<std::byte>& memory() const { return memory_; }

 private:
  batch::BlockLayout layout_;
  std::vector<std::byte> memory_;
};

struct Sample {
  std::span<const std::byte> bytes;
  bool decoded = false;
  std::uint64_t draw_key = 0;
  std::uint32_t place = 0;
  SampleId id{0};
};

inline prepare::Prepared prepare(prepare::Preparer& preparer, const prepare::Pipeline& pipeline,
                                 const Sample& sample, Slot& slot,
                                 std::vector<std::byte>* keep = nullptr) {
  prepare::Preparer::Input input{
      .sample = sample.id, .bytes = sample.bytes, .decoded = sample.decoded};
  input.label = 1;
  input.draw_key = sample.draw_key;
  const prepare::Preparer::KeepDecoded to_keep = [keep](Bytes bytes) {
    keep->resize(bytes);
    return keep->data();
  };
  return preparer.prepare(pipeline, input, slot.writer(), sample.place, keep ? &to_keep : nullptr);
}

// With each kind of inner loops that this processor has.
inline std::vector<std::unique_ptr<prepare::Preparer>> all_preparers() {
  std::vector<std::unique_ptr<prepare::Preparer>> all;
  for (const prepare::Kernels* kind : prepare::all_kernels())
    all.push_back(prepare::make_preparer(*kind));
  return all;
}

}  // namespace batchflow::test
