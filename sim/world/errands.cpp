#include "sim/world/errands.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace batchflow::sim {

namespace {

std::uint32_t index_of(ErrandId id) {
  return static_cast<std::uint32_t>(id);
}

}  // namespace

Errands::Errand* Errands::find(ErrandId id) {
  Errand& errand = errands_[index_of(id)];
  return errand.generation == id >> 32 ? &errand : nullptr;
}

ErrandId Errands::begin(Then then) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(errands_.size()));
    errands_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Errand& errand = errands_[index];
  errand.open = 1;
  errand.then = std::move(then);
  return std::uint64_t{errand.generation} << 32 | index;
}

void Errands::add_delay(ErrandId id, Duration delay) {
  ++find(id)->open;
  kernel_.after(delay, [this, id] { part_over(id); });
}

void Errands::add_work(ErrandId id, Server& server, const Kernel::Work& work) {
  BF_CHECK(server.limited());
  if (work.work <= 0) return;
  ++find(id)->open;
  if (server.flows_ < Server::kFlowsMost) return start_part(id, server, work);
  server.waiting_.push_back({id, work});
}

void Errands::start_part(ErrandId id, Server& server, const Kernel::Work& work) {
  ++server.flows_;
  const FlowId flow = kernel_.start_work(*server.host_, work, [this, id, &server] {
    if (Errand* errand = find(id)) {
      std::erase_if(errand->parts, [&](const Part& part) { return part.server == &server; });
    }
    leave(server);
    part_over(id, &server);
  });
  find(id)->parts.push_back({flow, &server});
}

void Errands::add_transfer(ErrandId id, simgrid::s4u::Host& from, simgrid::s4u::Host& to,
                           double bytes, Duration latency) {
  if (bytes <= 0) return;
  ++find(id)->open;
  if (latency.count() == 0) return start_transfer(id, from, to, bytes);
  kernel_.after(latency, [this, id, &from, &to, bytes] {
    if (find(id) != nullptr) start_transfer(id, from, to, bytes);
  });
}

void Errands::start_transfer(ErrandId id, simgrid::s4u::Host& from, simgrid::s4u::Host& to,
                             double bytes) {
  find(id)->parts.push_back(
      {kernel_.start_transfer(from, to, bytes, [this, id] { part_over(id, nullptr, true); }),
       nullptr});
}

void Errands::go(ErrandId id) {
  if (find(id)->open == 1) {
    kernel_.after(Duration(0), [this, id] { part_over(id); });
  } else {
    --find(id)->open;
  }
}

void Errands::part_over(ErrandId id, const Server* server, bool by_transfer) {
  Errand* errand = find(id);
  if (errand == nullptr || --errand->open > 0) return;
  const Then then = std::move(errand->then);
  release(index_of(id));
  ended_by_transfer_ = by_transfer;
  ended_on_ = server;
  then();
}

void Errands::leave(Server& server) {
  --server.flows_;
  while (server.flows_ < Server::kFlowsMost && !server.waiting_.empty()) {
    const Server::Waiting next = server.waiting_.front();
    server.waiting_.pop_front();
    if (find(next.errand) != nullptr) start_part(next.errand, server, next.work);
  }
}

void Errands::cancel(ErrandId id) {
  Errand* errand = find(id);
  if (errand == nullptr) return;
  const std::vector<Part> parts = std::move(errand->parts);
  release(index_of(id));
  for (const Part& part : parts) {
    kernel_.cancel(part.flow);
    if (part.server != nullptr) leave(*part.server);
  }
}

void Errands::release(std::uint32_t index) {
  Errand& errand = errands_[index];
  ++errand.generation;
  errand.parts.clear();
  errand.then = nullptr;
  free_.push_back(index);
}

}  // namespace batchflow::sim
