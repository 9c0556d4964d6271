#include "sim/world/tasks.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace batchflow::world {

namespace {

std::uint32_t index_of(TaskId id) {
  return static_cast<std::uint32_t>(id);
}

}  // namespace

Tasks::Task* Tasks::find(TaskId id) {
  Task& task = tasks_[index_of(id)];
  return task.generation == id >> 32 ? &task : nullptr;
}

TaskId Tasks::begin(Then then) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(tasks_.size()));
    tasks_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Task& task = tasks_[index];
  task.open = 1;
  task.then = std::move(then);
  return std::uint64_t{task.generation} << 32 | index;
}

void Tasks::add_delay(TaskId id, Duration delay) {
  ++find(id)->open;
  kernel_.after(delay, [this, id] { part_over(id); });
}

void Tasks::add_work(TaskId id, Server& server, const Kernel::Work& work) {
  BF_CHECK(server.limited());
  if (work.work <= 0) return;
  ++find(id)->open;
  if (server.flows_ < server.flows_most_) return start_part(id, server, work);
  server.waiting_.push_back({id, work});
}

void Tasks::start_part(TaskId id, Server& server, const Kernel::Work& work) {
  ++server.flows_;
  const FlowId flow = kernel_.start_work(*server.host_, work, [this, id, &server] {
    if (Task* task = find(id)) {
      std::erase_if(task->parts, [&](const Part& part) { return part.server == &server; });
    }
    leave(server);
    part_over(id, &server);
  });
  find(id)->parts.push_back({flow, &server});
}

void Tasks::add_transfer(TaskId id, simgrid::s4u::Host& from, simgrid::s4u::Host& to, double bytes,
                         Duration latency) {
  if (bytes <= 0) return;
  ++find(id)->open;
  if (latency.count() == 0) return start_transfer(id, from, to, bytes);
  kernel_.after(latency, [this, id, &from, &to, bytes] {
    if (find(id) != nullptr) start_transfer(id, from, to, bytes);
  });
}

void Tasks::start_transfer(TaskId id, simgrid::s4u::Host& from, simgrid::s4u::Host& to,
                           double bytes) {
  find(id)->parts.push_back(
      {kernel_.start_transfer(from, to, bytes, [this, id] { part_over(id, nullptr, true); }),
       nullptr});
}

void Tasks::go(TaskId id) {
  if (find(id)->open == 1) {
    kernel_.after(Duration(0), [this, id] { part_over(id); });
  } else {
    --find(id)->open;
  }
}

void Tasks::part_over(TaskId id, const Server* server, bool by_transfer) {
  Task* task = find(id);
  if (task == nullptr || --task->open > 0) return;
  const Then then = std::move(task->then);
  release(index_of(id));
  ended_by_transfer_ = by_transfer;
  ended_on_ = server;
  then();
}

void Tasks::leave(Server& server) {
  --server.flows_;
  while (server.flows_ < server.flows_most_ && !server.waiting_.empty()) {
    const Server::Waiting next = server.waiting_.front();
    server.waiting_.pop_front();
    if (find(next.task) != nullptr) start_part(next.task, server, next.work);
  }
}

void Tasks::cancel(TaskId id) {
  Task* task = find(id);
  if (task == nullptr) return;
  const std::vector<Part> parts = std::move(task->parts);
  release(index_of(id));
  for (const Part& part : parts) {
    kernel_.cancel(part.flow);
    if (part.server != nullptr) leave(*part.server);
  }
}

void Tasks::release(std::uint32_t index) {
  Task& task = tasks_[index];
  ++task.generation;
  task.parts.clear();
  task.then = nullptr;
  free_.push_back(index);
}

}  // namespace batchflow::world
