#include "runtime/service/snapshot.h"

#include <chrono>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace batchflow {
namespace {

using Json = nlohmann::json;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string to_json(const Snapshot& now) {
  Json all = {{"type", "answer"},
              {"version", now.version},
              {"pid", now.process},
              {"up_s", now.up_s},
              {"storage", now.storage},
              {"memory_bytes", now.memory_bytes},
              {"cache_bytes", now.cache_bytes},
              {"item_bytes", now.item_bytes},
              {"block_bytes", now.block_bytes},
              {"workers", now.workers},
              {"workers_most", now.workers_most},
              {"preparing_s", now.preparing_s},
              {"connections", now.connections},
              {"batches", now.moved.delivered_batches},
              {"samples", now.moved.delivered_samples},
              {"read_samples", now.moved.read_samples},
              {"read_bytes", now.moved.read_bytes},
              {"read_errors", now.moved.read_errors},
              {"prepared_samples", now.moved.prepared_samples},
              {"prepared_blocks", now.moved.prepared_blocks},
              {"decoded_hits", now.moved.decoded_hits},
              {"encoded_hits", now.moved.encoded_hits},
              {"copied_samples", now.moved.copied_samples},
              {"repeats", now.engine.repeats},
              {"remakes", now.engine.remakes},
              {"corrupt_samples", now.engine.corrupt_samples},
              {"protocol_errors", now.engine.protocol_errors},
              {"refused_proposals", now.engine.refused_proposals},
              {"opening", now.opening},
              {"jobs", Json::array()},
              {"datasets", Json::array()}};
  for (const Jobs::Told& job : now.jobs) {
    all["jobs"].push_back({{"id", job.id.value},
                           {"name", job.name},
                           {"user", job.user},
                           {"dataset", job.dataset},
                           {"pipeline", job.pipeline},
                           {"batch_samples", job.batch_samples},
                           {"ranks", job.world_size},
                           {"running", job.running},
                           {"epoch", job.epoch},
                           {"steps", job.steps},
                           {"samples", job.samples},
                           {"copied_batches", job.copied},
                           {"repeats", job.repeats},
                           {"held_batches", job.held},
                           {"wait_s", seconds(job.waited)},
                           {"compute_s", seconds(job.computed)}});
  }
  for (const Snapshot::Dataset& one : now.datasets) {
    all["datasets"].push_back({{"name", one.name},
                               {"path", one.path},
                               {"samples", one.samples},
                               {"bytes", one.bytes},
                               {"version", fmt::format("{:016x}", one.version)},
                               {"classes", one.classes}});
  }
  // Names come from users and paths from disks: what is no UTF-8 is replaced.
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace batchflow
