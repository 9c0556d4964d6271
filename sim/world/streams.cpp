#include "sim/world/streams.h"

#include <algorithm>

namespace batchflow::sim {

void Streams::add(std::vector<Source>& sources, std::size_t node, const Platform::Amount& amount) {
  const auto same = std::find_if(sources.begin(), sources.end(),
                                 [&](const Source& one) { return one.node == node; });
  Platform::Amount& sum =
      same != sources.end() ? same->amount : sources.emplace_back(Source{node, {}}).amount;
  sum.operations += amount.operations;
  sum.bytes += amount.bytes;
}

void Streams::add(const Read& order, Instant now, const Platform::Amount& amount) {
  Stream& stream = coming_[block_key(order.lineage)];
  // What was read for a block that was given up is not read for the same block again.
  if (stream.since != now) stream = {now, {}, 0, {}, {}, {}};
  if (order.from.tier == Tier::store) {
    stream.store.operations += amount.operations;
    stream.store.bytes += amount.bytes;
  } else {
    const std::size_t from = order.from.node.value;
    if (order.from.tier == Tier::nvme) add(stream.drives, from, amount);
    if (order.from.node != order.to.node) {
      stream.peers += amount.bytes;
      if (std::find(stream.from.begin(), stream.from.end(), from) == stream.from.end()) {
        stream.from.push_back(from);
      }
    }
  }
  if (keeps_on_drive(order)) add(stream.written, order.keep_at.node.value, amount);
}

void Streams::start(const Prepare& order, ErrandId errand, Random chance, std::uint32_t readers) {
  const auto found = coming_.find(block_key(order.lineage));
  if (found == coming_.end()) return;
  Stream& stream = found->second;
  const std::size_t node = order.node.value;
  stream.store.readers = readers;
  if (stream.store.bytes > 0) platform_.read_store(errand, node, stream.store, chance);
  for (Source& one : stream.drives) {
    one.amount.readers = readers;
    platform_.read_nvme(errand, one.node, one.amount, chance);
  }
  for (const Source& one : stream.written) {
    platform_.write_nvme(errand, one.node, one.amount.bytes);
  }
  if (stream.from.size() == 1) {
    platform_.copy(errand, stream.from.front(), node, stream.peers);
  } else if (stream.peers > 0) {
    platform_.gather(errand, node, stream.peers);
  }
  coming_.erase(found);
}

Cause Streams::cause_of(const Errands& errands, std::size_t node) const {
  const Server* last = errands.ended_on();
  if (errands.ended_by_transfer()) return Cause::network;
  if (last == nullptr) return Cause::storage;  // its latency
  if (platform_.is_cores(last, node)) return Cause::preparation;
  return platform_.is_store(last) ? Cause::storage : Cause::drive;
}

}  // namespace batchflow::sim
