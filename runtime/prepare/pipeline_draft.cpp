#include "runtime/prepare/pipeline_draft.h"

#include <fmt/format.h>

#include "core/base/random.h"
#include "runtime/prepare/sample_scratch.h"

namespace batchflow::prepare {
namespace {

// What a pipeline may take of a worker's time for one sample, as the memory of each step is
// bounded.
constexpr std::size_t kStepsMost = 64;

Digest digest_of(std::string_view text, Digest before) {
  Digest digest = hash(before, text.size());
  for (const char c : text) digest = hash(digest, static_cast<unsigned char>(c));
  return digest;
}

// True if most samples have a label: then those without are damaged, or the exception.
bool has_labels(const sources::SampleIndex& dataset) {
  // Of tables, names of classes may be there without labels.
  if (!dataset.classes().empty() && dataset.kind() != sources::RecordKind::value) return true;
  if (dataset.kind() == sources::RecordKind::rows ||
      dataset.kind() == sources::RecordKind::sequence)
    return false;
  return dataset.sums().labelled > dataset.samples() / 2;
}

}  // namespace

PipelineDraft::PipelineDraft(config::ConfigSection& whole, const sources::SampleIndex& samples,
                             const memory::ScratchLimits& limits)
    : section(whole), dataset(samples), scratch(limits), has_labels(prepare::has_labels(samples)) {}

void PipelineDraft::add_text(std::string_view line) {
  if (!parts.text.empty()) parts.text += '\n';
  parts.text += line;
  parts.info.hash = digest_of(line, parts.info.hash);
}

void PipelineDraft::check_scratch(config::ConfigSection& step, std::string_view key, Bytes bytes,
                                  std::string_view what) const {
  const Bytes most = scratch.most();
  if (bytes > most)
    step.refuse(key, fmt::format("{} takes {}", what, in_mib(bytes)),
                fmt::format("preparing a sample may take {}: write less, or have the service "
                            "given more ({})",
                            in_mib(most), kScratchSetting));
}

bool is_plugin(config::ConfigSection& step) {
  return step.has("plugin") || step.has("python");
}

std::string_view plugin_key(config::ConfigSection& step) {
  return step.has("plugin") ? "plugin" : "python";
}

void check_count(config::ConfigSection& step, std::size_t before) {
  if (before < kStepsMost) return;
  step.refuse(
      "step", fmt::format("there are {} steps before it", before),
      fmt::format("write at most {} steps, so that no sample takes a worker for long", kStepsMost));
}

}  // namespace batchflow::prepare
