#include "sim/world/streamed_blocks.h"

#include <algorithm>

namespace batchflow::world {

void StreamedBlocks::add(std::vector<Source>& sources, std::size_t node,
                         const Platform::Amount& amount, std::size_t gpu) {
  const auto same = std::find_if(sources.begin(), sources.end(), [&](const Source& source) {
    return source.node == node && source.gpu == gpu;
  });
  Platform::Amount& sum =
      same != sources.end() ? same->amount : sources.emplace_back(Source{node, {}, gpu}).amount;
  sum.operations += amount.operations;
  sum.bytes += amount.bytes;
}

void StreamedBlocks::add(const engine::Read& command, Instant now, const Platform::Amount& amount) {
  BlockInput& input = coming_[block_key(command.lineage)];
  // Reads for a block that was given up do not count for the same block again.
  if (input.since != now) input = {now, {}, 0, {}, {}, {}, {}};
  if (command.from.tier == Tier::store) {
    input.store.operations += amount.operations;
    input.store.bytes += amount.bytes;
  } else {
    const std::size_t from = command.from.node.value;
    if (command.from.tier == Tier::nvme) add(input.drives, from, amount);
    if (command.from.tier == Tier::gpu) add(input.gpus, from, amount, command.from.device);
    if (command.from.node != command.to.node) {
      input.peers += amount.bytes;
      if (std::find(input.from.begin(), input.from.end(), from) == input.from.end()) {
        input.from.push_back(from);
      }
    }
  }
  if (keeps_on_drive(command)) add(input.written, command.keep_at.node.value, amount);
}

void StreamedBlocks::start(const engine::Prepare& command, TaskId task, Random chance,
                           std::uint32_t readers) {
  const auto found = coming_.find(block_key(command.lineage));
  if (found == coming_.end()) return;
  BlockInput& input = found->second;
  const std::size_t node = command.node.value;
  input.store.readers = readers;
  if (input.store.bytes > 0) platform_.read_store(task, node, input.store, chance);
  for (Source& source : input.drives) {
    source.amount.readers = readers;
    platform_.read_nvme(task, source.node, source.amount, chance);
  }
  for (const Source& source : input.gpus)
    platform_.from_gpu(task, source.node, source.gpu, source.amount.bytes);
  for (const Source& source : input.written) {
    platform_.write_nvme(task, source.node, source.amount.bytes);
  }
  if (input.from.size() == 1) {
    platform_.copy(task, input.from.front(), node, input.peers);
  } else if (input.peers > 0) {
    platform_.gather(task, node, input.peers);
  }
  coming_.erase(found);
}

Cause StreamedBlocks::cause_of(const Tasks& tasks, std::size_t node) const {
  const Server* last = tasks.ended_on();
  if (tasks.ended_by_transfer()) return Cause::network;
  if (last == nullptr) return Cause::storage;  // its latency
  if (platform_.is_cores(last, node)) return Cause::preparation;
  return platform_.is_store(last) ? Cause::storage : Cause::drive;
}

}  // namespace batchflow::world
