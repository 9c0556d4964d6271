// Tasks: work that uses several resources at once, and that ends when all of them are done.
//
// A read from the store takes the store's bandwidth, its metadata server and the links to the node.
// All parts go on at the same time, and the task ends with the last of them. A part that shares
// nothing with others is a delay, which costs a timer.
//
// SimGrid's cost grows with the flows on one resource, so each Server carries a bounded number of
// them; further flows wait in the order in which they came. The bound is far above what the
// engine's rules put under way on one node.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/world/kernel.h"

namespace batchflow::world {

using TaskId = std::uint64_t;  // never used again

// A host with a speed that its flows share.
class Server {
 public:
  static constexpr std::uint32_t kFlowsMost = 512;

  // Null: there is no limit, and so nothing to share.
  explicit Server(simgrid::s4u::Host* host = nullptr, std::uint32_t flows_most = kFlowsMost)
      : host_(host), flows_most_(flows_most) {}
  bool limited() const { return host_ != nullptr; }

 private:
  friend class Tasks;
  struct Waiting {
    TaskId task;
    Kernel::Work work;
  };
  simgrid::s4u::Host* host_;
  std::uint32_t flows_most_;  // under way at once
  std::uint32_t flows_ = 0;
  std::deque<Waiting> waiting_;
};

class Tasks {
 public:
  explicit Tasks(Kernel& kernel) : kernel_(kernel) {}

  // Parts are added before `go`. `then` is called when all are over, in a later round at least.
  TaskId begin(Then then);
  void add_delay(TaskId task, Duration delay);
  // The server outlives the task.
  void add_work(TaskId task, Server& server, const Kernel::Work& work);
  // The first byte is on its way for `latency` before the transfer takes bandwidth.
  void add_transfer(TaskId task, simgrid::s4u::Host& from, simgrid::s4u::Host& to, double bytes,
                    Duration latency);
  void go(TaskId task);

  // Within the `then` of a task: what the last part of that task ran on. A delay runs on no server,
  // nor does a transfer.
  bool ended_by_transfer() const { return ended_by_transfer_; }
  const Server* ended_on() const { return ended_on_; }

  // Ends all parts of the task; `then` is not called. Nothing happens if the task is over.
  void cancel(TaskId task);

 private:
  struct Part {
    FlowId flow = 0;
    Server* server = nullptr;  // that counts the flow
  };
  struct Task {
    std::uint32_t generation = 0;
    std::uint32_t open = 0;  // parts that are not over, and one until `go`
    std::vector<Part> parts;
    Then then;
  };

  Task* find(TaskId id);
  void start_part(TaskId id, Server& server, const Kernel::Work& work);
  void start_transfer(TaskId id, simgrid::s4u::Host& from, simgrid::s4u::Host& to, double bytes);
  void part_over(TaskId id, const Server* server = nullptr, bool by_transfer = false);
  void leave(Server& server);
  void release(std::uint32_t index);

  Kernel& kernel_;
  bool ended_by_transfer_ = false;  // what ended last was a transfer
  const Server* ended_on_ = nullptr;
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> free_;
};

}  // namespace batchflow::world
