#include "sim/world/batch_file.h"

#include <fmt/format.h>

#include <chrono>

#include "core/engine/seed_group.h"
#include "programs/output/json_writer.h"

namespace batchflow::world {

namespace {

std::uint64_t size_of(std::span<const order::Slice> slices) {
  std::uint64_t samples = 0;
  for (const order::Slice& slice : slices) samples += slice.to - slice.from;
  return samples;
}

// The samples of the slices that are of this kind; `samples` has those of all slices in turn.
std::vector<SampleId> of_kind(const engine::Deliver& command, std::span<const SampleId> samples,
                              bool fillers, bool rehearsed) {
  std::vector<SampleId> found;
  for (const order::Slice& slice : command.slices) {
    const auto own = samples.first(slice.to - slice.from);
    samples = samples.subspan(own.size());
    if (slice.filler == fillers && slice.rehearsed == rehearsed)
      found.insert(found.end(), own.begin(), own.end());
  }
  return found;
}

void put(output::JsonWriter& json, const char* name, const std::vector<SampleId>& samples) {
  json.key(name);
  json.begin_array();
  for (const SampleId sample : samples) json.value(sample.value);
  json.end_array();
}

// The line ends with the time at which the job has trained on the batch.
std::string begin_line(const std::string& job, std::uint32_t life, const engine::Deliver& command,
                       std::span<const SampleId> samples) {
  std::string line;
  const output::Sink sink = [&](std::string_view piece) { line += piece; };
  output::JsonWriter json(sink, output::JsonWriter::Layout::one_line);
  json.begin_object();
  json.key("job");
  json.value(job);
  if (life > 0) {
    json.key("life");
    json.value(std::uint64_t{life});
  }
  json.key("rank");
  json.value(std::uint64_t{command.rank});
  json.key("epoch");
  json.value(std::uint64_t{command.epoch});
  json.key("step");
  json.value(command.step);
  put(json, "samples",
      command.slices.empty() ? std::vector(samples.begin(), samples.end())  // of a list
                             : of_kind(command, samples, false, false));
  const auto fillers = of_kind(command, samples, true, false);
  if (!fillers.empty()) put(json, "fillers", fillers);
  const auto rehearsed = of_kind(command, samples, false, true);
  if (!rehearsed.empty()) put(json, "rehearsed", rehearsed);
  json.end_object();
  json.finish();
  line.pop_back();
  return line;
}

}  // namespace

BatchFile::BatchFile(const std::string& path, const input::Scenario& scenario,
                     const Workload& workload, const JobIds& ids)
    : file_(path), scenario_(scenario), workload_(workload), ids_(ids) {}

void BatchFile::step(Instant now, std::span<const engine::Event> events,
                     std::span<const engine::Command> commands) {
  if (!file_.is_wanted()) return;
  for (const engine::Event& event : events) {
    if (const auto* join = std::get_if<engine::JobJoined>(&event)) joined(*join);
    if (const auto* left = std::get_if<engine::JobLeft>(&event)) jobs_.erase(left->job);
    if (const auto* done = std::get_if<engine::BatchConsumed>(&event)) consumed(now, *done);
  }
  for (const engine::Command& command : commands) {
    if (const auto* deliver = std::get_if<engine::Deliver>(&command)) delivered(*deliver);
  }
}

void BatchFile::joined(const engine::JobJoined& event) {
  const Workload::Data& data = workload_.data(event.dataset);
  const std::uint8_t shift = data.catalogue->bundle_shift();
  const std::uint64_t seed = engine::seed_group_of(event, shift, scenario_.engine.share_streams);
  // A strict epoch is the first pass of all lanes, one after the other.
  const Order order = event.order == Order::strict ? Order::relaxed : event.order;
  const std::uint32_t index = ids_.index_of(event.job);
  jobs_.insert_or_assign(event.job, Job{scenario_.jobs[index].name,
                                        lives_[index]++,
                                        {order,
                                         {data.version, seed},
                                         0,
                                         {data.catalogue->samples(), 1, 1},
                                         event.runs ? shift : std::uint8_t{0}}});
}

void BatchFile::consumed(Instant now, const engine::BatchConsumed& event) {
  const auto job = jobs_.find(event.job);
  if (job == jobs_.end()) return;
  auto& lines = job->second.lines;
  const auto line = lines.find({event.rank, event.step});
  if (line == lines.end()) return;
  const double time_s = std::chrono::duration<double>(now.time_since_epoch()).count();
  const std::string whole = fmt::format("{},\"time_s\":{:.9g}}}\n", line->second, time_s);
  file_.write(std::as_bytes(std::span(whole)));
  // Earlier steps of the rank that are still there are void.
  lines.erase(lines.lower_bound({event.rank, 0}), std::next(line));
}

void BatchFile::delivered(const engine::Deliver& command) {
  const auto job = jobs_.find(command.job);
  if (job == jobs_.end()) return;
  job->second.lines.insert_or_assign(
      {command.rank, command.step},
      begin_line(job->second.name, job->second.life, command, samples_of(job->second, command)));
}

// The samples of all slices in turn, or of a list. The command lists those that follow from no
// block's name: of draws, and where a policy chooses samples.
std::vector<SampleId> BatchFile::samples_of(const Job& job, const engine::Deliver& command) {
  const bool lists_all = command.samples.size() == size_of(command.slices);
  std::span<const SampleId> listed = command.samples;
  std::vector<SampleId> all;
  std::vector<SampleId> some;
  for (const engine::Ingredient& one : command.ingredients) all.push_back(one.sample);
  for (const order::Slice& slice : command.slices) {
    if (lists_all || slice.rehearsed) {
      const auto next = listed.first(slice.to - slice.from);
      listed = listed.subspan(next.size());
      all.insert(all.end(), next.begin(), next.end());
      continue;
    }
    order::GenerationOrder order = job.order;
    order.generation = slice.name.generation;
    order.sizes = {order.sizes.samples, command.block_samples, command.lane_blocks};
    expander_.expand(order.lineage(slice.name, DatasetId(1), PipelineId(1), 0), order.sizes.samples,
                     slice.from, slice.to, some);
    all.insert(all.end(), some.begin(), some.end());
  }
  for (const order::Replacement& one : command.replacements) all.at(one.index) = one.used;
  return all;
}

}  // namespace batchflow::world
