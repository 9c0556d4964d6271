#include "programs/input/journal_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <variant>

#include "programs/config/replay_journal.h"
#include "programs/input/recorded_configuration.h"
#include "programs/input/recorded_jobs.h"
#include "programs/input/recorded_work.h"
#include "programs/input/timed_work.h"

namespace batchflow::input {
namespace {

using engine::Catalogue;
using engine::PipelineInfo;

// Gives each part of what is recorded the events and commands that it is made from.
class Watcher {
 public:
  Watcher(log::JournalReader& journal, RecordedRun& run)
      : journal_(journal),
        run_(run),
        configuration_(journal.header().configuration, run.workload.notes),
        jobs_(configuration_, notes_),
        work_(run.figures) {}

  void step(const log::JournalReader::EngineStep& step, std::span<const engine::Command> commands) {
    now_ = step.now;
    for (const engine::Event& event : step.events)
      std::visit([this](const auto& one) { on(one); }, event);
    for (const engine::Command& command : commands)
      std::visit([this](const auto& one) { on(one); }, command);
    ++run_.steps;
  }

  void finish() {
    ObservedWorkload& workload = run_.workload;
    workload.seed = journal_.header().seed;
    workload.configuration = configuration_.most_used();
    for (const auto& [id, node] : nodes_) workload.nodes.push_back(node);
    if (workload.nodes.empty()) workload.nodes.emplace_back();
    jobs_.finish(run_);
    finish_pipelines();
    workload.store = work_.store();
    for (const std::string& note : notes_) workload.notes.push_back(note);
  }

 private:
  // --------------------------------------------------------------------------------- events ----
  template <class Other>
  void on(const Other&) {}

  void on(const engine::CatalogueKnown& known) {
    catalogues_[known.dataset.value] = journal_.catalogues().find(known.dataset, known.version);
  }
  void on(const engine::PipelineKnown& known) {
    infos_[known.pipeline.value] = journal_.catalogues().find(known.pipeline, known.hash);
  }
  void on(const engine::NodeJoined& joined) {
    nodes_[joined.node.value].cores = std::max(1U, joined.cores);
  }
  void on(const engine::NodeLost& lost) {
    notes_.insert(fmt::format("node {} was lost; in the simulation it stays", lost.node.value));
  }
  void on(const engine::CapacityChanged& changed) {
    if (changed.place.node.is_none() || changed.bytes == 0) return;
    ObservedNode& node = nodes_[changed.place.node.value];
    Bytes& bytes = changed.place.tier == Tier::nvme ? node.nvme : node.cache;
    if (changed.place.tier != Tier::nvme && changed.place.tier != Tier::dram) return;
    if (bytes != 0 && bytes != changed.bytes && jobs_.any())
      notes_.insert("memory changed while jobs ran; the last size is taken for all of it");
    bytes = changed.bytes;
  }
  void on(const engine::PolicyChanged& changed) { configuration_.policy(changed.text); }
  void on(const engine::ConfigurationChanged& changed) { configuration_.setting(changed.text); }
  void on(const engine::DecodedMeasured& measured) {
    decoded_[measured.dataset.value] = measured.bytes;
  }
  void on(const engine::JobJoined& event) {
    jobs_.joined(event, dataset(event.dataset.value), pipeline(event.pipeline.value), now_);
  }
  void on(const engine::ExemplarsReported& event) { jobs_.reported(event); }
  void on(const engine::JobResized& event) { jobs_.resized(event); }
  void on(const engine::JobLeft& event) { jobs_.left(event, now_); }
  void on(const engine::BatchConsumed& event) { jobs_.consumed(event, now_); }
  void on(const engine::DeliveryDone& event) { jobs_.delivered(event, now_); }
  void on(const engine::ReadDone& event) { work_.ended(event, now_); }
  void on(const engine::PreparationDone& event) { work_.ended(event, now_); }

  // ------------------------------------------------------------------------------- commands ----
  void on(const engine::Refuse& command) { jobs_.refused(command); }
  void on(const engine::EpochEnded& command) { jobs_.ended(command); }
  void on(const engine::Deliver& command) { jobs_.handed_over(command); }
  void on(const engine::Read& command) {
    const auto found = catalogues_.find(command.dataset.value);
    work_.began(command, found == catalogues_.end() ? nullptr : found->second, now_);
  }
  void on(const engine::Prepare& command) { work_.began(command, now_); }
  void on(const engine::Cancel& command) { work_.cancelled(command); }

  // --------------------------------------------------------------------------------- helpers ----
  std::size_t dataset(std::uint32_t id) {
    const auto [found, is_new] = dataset_of_.try_emplace(id, run_.workload.datasets.size());
    if (is_new) {
      ObservedDataset one;
      one.name = fmt::format("dataset-{}", id);
      one.samples = 1;
      if (const Catalogue* catalogue = catalogues_[id]) {
        one.name = catalogue->name();
        one.samples = catalogue->samples();
        one.bytes = catalogue->mean_bytes();
        one.bundle_shift = catalogue->bundle_shift();
        if (!catalogue->is_uniform()) {
          Sums sizes;
          constexpr std::uint64_t kLookedAt = 100'000;
          const std::uint64_t each = 1 + catalogue->samples() / kLookedAt;
          for (std::uint64_t i = 0; i < catalogue->samples(); i += each)
            sizes.add(static_cast<double>(catalogue->bytes(SampleId(i))));
          one.bytes_jitter = sizes.result().jitter;
        }
      }
      run_.workload.datasets.push_back(one);
    }
    return found->second;
  }
  std::size_t pipeline(std::uint32_t id) {
    const auto [found, is_new] = pipeline_of_.try_emplace(id, pipeline_of_.size());
    if (is_new) {
      ObservedPipeline one;
      one.name = fmt::format("pipeline-{}", id);
      if (const PipelineInfo* info = infos_[id]) {
        one.decoded_bytes = info->decoded_bytes;
        one.prepared_bytes = info->prepared_bytes;
        one.decode_s = seconds_of(info->decode_cost);
        one.augment_s = seconds_of(info->augment_cost);
      }
      run_.workload.pipelines.push_back(one);
    }
    return found->second;
  }

  // Costs and sizes that were expected give way to what was measured.
  void finish_pipelines() {
    ObservedWorkload& workload = run_.workload;
    const bool has_help = workload.configuration.find("count_staging=true") != std::string::npos;
    for (ObservedNode& node : workload.nodes) node.workers_help = has_help;
    work_.find_core_times(nodes_, has_help);
    for (const auto& [id, index] : pipeline_of_) work_.measure(id, workload.pipelines[index]);
    for (const auto& [id, bytes] : decoded_) {
      for (const ObservedJob& job : workload.jobs) {
        ObservedPipeline& pipeline = workload.pipelines[job.pipeline];
        const auto found = dataset_of_.find(id);
        if (found != dataset_of_.end() && found->second == job.dataset &&
            pipeline.decoded_bytes > 0 && bytes > 0)
          pipeline.decoded_bytes = bytes;
      }
    }
  }

  log::JournalReader& journal_;
  RecordedRun& run_;
  std::set<std::string> notes_;
  RecordedConfiguration configuration_;
  RecordedJobs jobs_;
  RecordedWork work_;
  Instant now_{};
  std::map<std::uint32_t, const Catalogue*> catalogues_;
  std::map<std::uint32_t, const PipelineInfo*> infos_;
  std::map<std::uint32_t, Bytes> decoded_;  // by dataset
  std::map<std::uint32_t, std::size_t> dataset_of_;
  std::map<std::uint32_t, std::size_t> pipeline_of_;
  std::map<std::uint32_t, ObservedNode> nodes_;
};

}  // namespace

RecordedRun read_recorded_run(
    log::JournalReader& journal, const std::string& name, const engine::PolicyList& policies,
    const std::function<void(const log::JournalReader::EngineStep&)>& before_step) {
  RecordedRun run;
  run.workload.name = name;
  run.recorded_by = journal.header().version;
  Watcher watcher(journal, run);
  const log::ReplayResult result = config::replay_journal(
      journal, policies, {}, {},
      [&](const log::JournalReader::EngineStep& step, std::span<const engine::Command> commands) {
        if (before_step) before_step(step);
        watcher.step(step, commands);
      });
  run.differs = !result.same();
  watcher.finish();
  return run;
}

}  // namespace batchflow::input
