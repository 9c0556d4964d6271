#include "programs/input/journal_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <variant>
#include <vector>

#include "core/engine/engine_config.h"
#include "core/engine/policy_texts.h"
#include "programs/config/engine_settings.h"
#include "programs/config/replay_journal.h"

namespace batchflow::input {
namespace {

using engine::Catalogue;
using engine::PipelineInfo;

constexpr std::size_t kTimesMost = 1'000'000;  // reads, and preparations, that are looked at

// Mean and spread of many values, of which none is kept.
struct Sums {
  double count = 0;
  double sum = 0;
  double squares = 0;
  void add(double value) {
    count += 1;
    sum += value;
    squares += value * value;
  }
  MeanAndJitter result() const {
    if (count < 1 || sum <= 0) return {};
    const double mean = sum / count;
    const double variance =
        count < 2 ? 0 : std::max(0., squares / count - mean * mean) * count / (count - 1);
    return {mean, std::sqrt(variance) / mean};
  }
};

// The configuration of the engine, as it changes during the run.
class Configuration {
 public:
  Configuration(const std::string& recorded, std::vector<std::string>& notes) : notes_(notes) {
    if (recorded.starts_with("preset="))
      preset_ = recorded.substr(7, std::min(recorded.find('\n'), recorded.size()) - 7);
    now_ = config::engine_config_of(config::without_preset(recorded), "its configuration");
    used_[text()] = 0;
  }
  void policy(std::string_view change) {
    const auto [kind, policy] = engine::split_policy(change);
    if (engine::policy_scope(kind).only) return;  // of one share or stream
    engine::set_policy(now_.policies, kind, std::string(policy));
    changed();
  }
  void setting(std::string_view change) {
    engine::change_setting(now_, change);
    changed();
  }
  void trained(std::uint64_t samples) { used_[text_] += samples; }
  // The one that most samples were trained on with.
  std::string most_used() {
    const auto most =
        std::max_element(used_.begin(), used_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (used_.size() > 1)
      notes_.push_back(
          "policies or settings changed while it ran; those that most samples were trained on with "
          "are taken for all of it");
    return most->first;
  }

 private:
  void changed() {
    preset_.clear();
    used_.try_emplace(text(), 0);
  }
  const std::string& text() {
    engine::EngineConfig named = now_;
    named.preset = preset_;
    for (const engine::Preset* preset : engine::presets()) {
      if (!named.preset.empty()) break;
      engine::EngineConfig other = now_;
      engine::apply_preset(other, preset->name);
      other.preset = now_.preset;
      if (other == now_) named.preset = preset->name;
    }
    return text_ = config::text_of(named);
  }

  std::vector<std::string>& notes_;
  std::string preset_;
  engine::EngineConfig now_;
  std::string text_;
  std::map<std::string, std::uint64_t> used_;
};

struct RankTrack {
  Instant free_since{};  // when it came, or was done with its last batch
  Instant last{};
  std::uint64_t steps = 0;
  double stall_s = 0;
};

struct JobTrack {
  ObservedJob job;
  Instant joined{};
  std::uint32_t epochs_asked = 0;
  std::uint64_t steps_asked = 0;
  std::uint32_t epochs_ended = 0;
  std::uint32_t last_epoch = 0;
  bool left = false;
  bool refused = false;
  std::vector<RankTrack> ranks;
  Sums steps;

  std::uint64_t steps_done() const {
    std::uint64_t least = UINT64_MAX;
    for (const RankTrack& rank : ranks) least = std::min(least, rank.steps);
    return ranks.empty() ? 0 : least;
  }
};

class Watcher {
 public:
  Watcher(log::JournalReader& journal, RecordedRun& run)
      : journal_(journal),
        run_(run),
        configuration_(journal.header().configuration, run.workload.notes) {}

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
    finish_jobs();
    finish_pipelines();
    workload.store = estimate_store(std::move(reads_));
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
    if (bytes != 0 && bytes != changed.bytes && !jobs_.empty())
      notes_.insert("memory changed while jobs ran; the last size is taken for all of it");
    bytes = changed.bytes;
  }
  void on(const engine::PolicyChanged& changed) { configuration_.policy(changed.text); }
  void on(const engine::ConfigurationChanged& changed) { configuration_.setting(changed.text); }
  void on(const engine::DecodedMeasured& measured) {
    decoded_[measured.dataset.value] = measured.bytes;
  }
  void on(const engine::JobJoined& joined) {
    JobTrack& track = jobs_[joined.job.value];
    track.joined = now_;
    if (!began_) began_ = now_;
    ObservedJob& job = track.job;
    job.name = fmt::format("job-{}", joined.job.value);
    const auto user = users_.try_emplace(joined.user, users_.size()).first;
    job.user = fmt::format("user-{}", user->second);
    job.dataset = dataset(joined.dataset.value);
    job.pipeline = pipeline(joined.pipeline.value);
    job.order = joined.order;
    if (joined.has_shuffle_seed) job.shuffle_seed = joined.shuffle_seed;
    job.batch = joined.batch_samples;
    job.drop_last = joined.drop_last;
    job.node_local = joined.node_local;
    job.runs = joined.runs;
    job.rehearsed = joined.rehearsed;
    job.exemplars = joined.buffer_exemplars;
    job.credits = joined.credits;
    job.weight = joined.weight;
    job.latency_target = joined.latency_target;
    job.ranks = static_cast<std::uint32_t>(std::max<std::size_t>(1, joined.ranks.size()));
    job.arrives = now_ - *began_;
    for (const NodeId node : joined.ranks)
      if (std::find(job.nodes.begin(), job.nodes.end(), node.value) == job.nodes.end())
        job.nodes.push_back(node.value);
    track.epochs_asked = joined.epochs;
    track.steps_asked = joined.steps;
    track.ranks.assign(job.ranks, {now_, now_, 0, 0});
    if (joined.position != nullptr)
      notes_.insert(fmt::format(
          "{} came with a position in its data; in the simulation it begins an epoch", job.name));
  }
  void on(const engine::ExemplarsReported& reported) {
    if (JobTrack* track = find(reported.job))
      track->job.exemplars =
          std::max(track->job.exemplars,
                   reported.first + static_cast<std::uint32_t>(reported.samples.size()));
  }
  void on(const engine::JobResized& resized) {
    if (JobTrack* track = find(resized.job))
      notes_.insert(fmt::format("{} went on with {} ranks; in the simulation it keeps its {}",
                                track->job.name, resized.ranks.size(), track->job.ranks));
  }
  void on(const engine::JobLeft& left) {
    if (JobTrack* track = find(left.job)) {
      track->left = true;
      ends_ = now_;
    }
  }
  void on(const engine::BatchConsumed& consumed) {
    JobTrack* const track = find(consumed.job);
    if (track == nullptr || consumed.rank >= track->ranks.size()) return;
    RankTrack& rank = track->ranks[consumed.rank];
    ++rank.steps;
    if (consumed.compute > Duration(1)) track->steps.add(seconds_of(consumed.compute));
    const auto found = delivered_.find({consumed.job.value, consumed.rank, consumed.step});
    if (found != delivered_.end()) {
      rank.stall_s += std::max(0., seconds_of(found->second.at - rank.free_since));
      run_.figures.samples += found->second.samples;
      configuration_.trained(found->second.samples);
      delivered_.erase(found);
    }
    rank.free_since = rank.last = ends_ = now_;
  }
  void on(const engine::ReadDone& done) {
    const auto found = reading_.find({done.request.id.value, done.request.attempt});
    if (found == reading_.end()) return;
    if (done.outcome == engine::Outcome::done && reads_.size() < kTimesMost) {
      found->second.to = now_;
      reads_.push_back(found->second);
    }
    reading_.erase(found);
  }
  void on(const engine::PreparationDone& done) {
    const auto found = preparing_.find({done.request.id.value, done.request.attempt});
    if (found == preparing_.end()) return;
    Preparation& one = found->second;
    if (done.outcome != engine::Outcome::failed && preparations_.size() < kTimesMost) {
      one.work.to = now_;
      preparations_.push_back(one);
    }
    preparing_.erase(found);
  }
  void on(const engine::DeliveryDone& done) {
    const auto found = delivering_.find(done.request.id.value);
    if (found == delivering_.end()) return;
    auto& [key, batch] = found->second;
    batch.at = now_;
    delivered_[key] = batch;
    delivering_.erase(found);
  }

  // ------------------------------------------------------------------------------- commands ----
  void on(const engine::Refuse& refused) {
    if (JobTrack* track = find(refused.job)) {
      track->refused = true;
      notes_.insert(fmt::format("{} was refused ({})", track->job.name, name_of(refused.why)));
    }
  }
  void on(const engine::EpochEnded& ended) {
    if (JobTrack* track = find(ended.job)) ++track->epochs_ended;
  }
  void on(const engine::Cancel& cancel) {
    const auto drop = [&](auto& map) {
      const auto from = map.lower_bound({cancel.request.id.value, 0});
      const auto to = map.upper_bound({cancel.request.id.value, UINT32_MAX});
      map.erase(from, to);
    };
    drop(reading_);
  }
  void on(const engine::Read& read) {
    if (read.from.tier != Tier::store) return;
    TimedWork work{now_, now_, 0, 0};
    const auto found = catalogues_.find(read.dataset.value);
    const Catalogue* const catalogue = found == catalogues_.end() ? nullptr : found->second;
    if (catalogue == nullptr) return;
    std::uint64_t samples = 0;
    if (read.samples.empty()) {
      samples = read.lineage.samples;
      work.operations = static_cast<double>(samples);
      work.bytes = work.operations * static_cast<double>(catalogue->mean_bytes());
    }
    for (const SampleId sample : read.samples) {
      if (sample.value >= catalogue->samples()) continue;
      work.operations += 1;
      if (read.bundle_shift > 0) {
        const std::uint64_t bundle = sample.value >> read.bundle_shift;
        work.bytes += static_cast<double>(catalogue->bundle_bytes(bundle));
        samples += std::min(std::uint64_t{1} << read.bundle_shift,
                            catalogue->samples() - (bundle << read.bundle_shift));
      } else {
        work.bytes += static_cast<double>(catalogue->bytes(sample));
        ++samples;
      }
    }
    run_.figures.samples_read += samples;
    run_.figures.storage_bytes += static_cast<Bytes>(work.bytes);
    reading_[{read.request.id.value, read.request.attempt}] = work;
  }
  void on(const engine::Prepare& prepare) {
    Preparation one;
    one.work = {now_, now_, static_cast<double>(prepare.samples()), 0};
    one.pipeline = prepare.lineage.pipeline.value;
    one.node = prepare.node.value;
    for (const engine::Ingredient& ingredient : prepare.ingredients)
      if (ingredient.form == Form::decoded) one.decoded += 1;
    run_.figures.samples_requested += prepare.samples();
    preparing_[{prepare.request.id.value, prepare.request.attempt}] = one;
  }
  void on(const engine::Deliver& deliver) {
    JobTrack* const track = find(deliver.job);
    if (track == nullptr) return;
    track->last_epoch = std::max(track->last_epoch, deliver.epoch);
    std::uint64_t samples = 0;
    for (const order::Slice& slice : deliver.slices)
      if (!slice.filler && !slice.rehearsed) samples += slice.to - slice.from;
    if (deliver.slices.empty())
      samples = std::max(deliver.samples.size(), deliver.ingredients.size());
    delivering_[deliver.request.id.value] = {{deliver.job.value, deliver.rank, deliver.step},
                                             {now_, samples}};
  }

  // --------------------------------------------------------------------------------- helpers ----
  JobTrack* find(JobId job) {
    const auto found = jobs_.find(job.value);
    return found == jobs_.end() ? nullptr : &found->second;
  }

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

  void finish_jobs() {
    RecordedFigures& figures = run_.figures;
    if (began_ && ends_ > *began_) figures.span_s = seconds_of(ends_ - *began_);
    std::uint64_t cut = 0;
    for (auto& [id, track] : jobs_) {
      for (const RankTrack& rank : track.ranks) {
        figures.rank_s += seconds_of(rank.last - track.joined);
        figures.stall_s += rank.stall_s;
      }
      const std::uint64_t steps = track.steps_done();
      if (steps == 0) {
        notes_.insert(fmt::format("{} trained on nothing, and is left out", track.job.name));
        continue;
      }
      const bool whole = track.epochs_asked > 0 && track.epochs_ended >= track.epochs_asked;
      track.job.epochs = track.epochs_asked > 0 ? track.epochs_asked : track.last_epoch + 1;
      if (!whole) {
        // The last step of a job that ends by its steps is not reported before it leaves.
        track.job.steps = track.left && track.steps_asked == steps + 1 ? track.steps_asked : steps;
        cut += track.left ? 0 : 1;
      }
      const MeanAndJitter step = track.steps.result();
      track.job.step_s = step.mean;
      track.job.step_jitter = step.jitter;
      run_.workload.jobs.push_back(track.job);
    }
    if (cut > 0)
      notes_.insert(fmt::format(
          "{} job(s) still ran where the journal ends, and are simulated as far as that", cut));
    std::stable_sort(
        run_.workload.jobs.begin(), run_.workload.jobs.end(),
        [](const ObservedJob& a, const ObservedJob& b) { return a.arrives < b.arrives; });
  }

  // The core time of samples, by pipeline: costs that were expected are scaled to what was
  // measured.
  void finish_pipelines() {
    const bool has_help =
        run_.workload.configuration.find("count_staging=true") != std::string::npos;
    for (ObservedNode& node : run_.workload.nodes) node.workers_help = has_help;
    std::map<std::uint32_t, std::vector<std::size_t>> by_node;
    for (std::size_t i = 0; i < preparations_.size(); ++i)
      by_node[preparations_[i].node].push_back(i);
    std::vector<double> core_s(preparations_.size());
    for (const auto& [node, which] : by_node) {
      std::vector<TimedWork> works;
      for (const std::size_t i : which) works.push_back(preparations_[i].work);
      const auto found = nodes_.find(node);
      const std::size_t workers = found == nodes_.end() ? 1 : found->second.cores;
      const std::vector<double> each = core_seconds(works, workers, has_help);
      for (std::size_t k = 0; k < which.size(); ++k) core_s[which[k]] = each[k];
    }
    for (const auto& [id, index] : pipeline_of_) {
      ObservedPipeline& pipeline = run_.workload.pipelines[index];
      double measured = 0, expected = 0, samples = 0;
      std::vector<double> factors;
      for (std::size_t i = 0; i < preparations_.size(); ++i) {
        const Preparation& one = preparations_[i];
        if (one.pipeline != id || one.work.operations <= 0) continue;
        const double encoded = one.work.operations - one.decoded;
        const double usual = pipeline.augment_s * one.work.operations + pipeline.decode_s * encoded;
        measured += core_s[i] * one.work.operations;
        expected += usual;
        samples += one.work.operations;
        // One sample's spread, of which a block shows the mean of many.
        if (usual > 0) factors.push_back(core_s[i] * one.work.operations / usual);
      }
      if (samples <= 0 || measured <= 0) continue;
      pipeline.was_measured = true;
      const double each = samples / static_cast<double>(std::max<std::size_t>(1, factors.size()));
      pipeline.jitter = mean_and_jitter(factors).jitter * std::sqrt(each);
      if (expected > 0) {
        pipeline.decode_s *= measured / expected;
        pipeline.augment_s *= measured / expected;
      } else {
        pipeline.augment_s = measured / samples;
      }
    }
    for (const auto& [id, bytes] : decoded_) {
      for (const ObservedJob& job : run_.workload.jobs) {
        ObservedPipeline& pipeline = run_.workload.pipelines[job.pipeline];
        const auto found = dataset_of_.find(id);
        if (found != dataset_of_.end() && found->second == job.dataset &&
            pipeline.decoded_bytes > 0 && bytes > 0)
          pipeline.decoded_bytes = bytes;
      }
    }
  }

  struct Preparation {
    TimedWork work;
    double decoded = 0;  // samples of it that were kept decoded
    std::uint32_t pipeline = 0;
    std::uint32_t node = 0;
  };
  struct Batch {
    Instant at;
    std::uint64_t samples = 0;
  };
  using BatchKey = std::tuple<std::uint32_t, Rank, std::uint64_t>;
  using RequestKey = std::pair<std::uint64_t, std::uint32_t>;

  log::JournalReader& journal_;
  RecordedRun& run_;
  Configuration configuration_;
  Instant now_{};
  std::optional<Instant> began_;
  Instant ends_{};
  std::set<std::string> notes_;
  std::map<std::uint32_t, const Catalogue*> catalogues_;
  std::map<std::uint32_t, const PipelineInfo*> infos_;
  std::map<std::uint32_t, Bytes> decoded_;  // by dataset
  std::map<std::uint64_t, std::size_t> users_;
  std::map<std::uint32_t, std::size_t> dataset_of_;
  std::map<std::uint32_t, std::size_t> pipeline_of_;
  std::map<std::uint32_t, ObservedNode> nodes_;
  std::map<std::uint32_t, JobTrack> jobs_;
  std::map<RequestKey, TimedWork> reading_;
  std::map<RequestKey, Preparation> preparing_;
  std::map<std::uint64_t, std::pair<BatchKey, Batch>> delivering_;
  std::map<BatchKey, Batch> delivered_;
  std::vector<TimedWork> reads_;
  std::vector<Preparation> preparations_;
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
