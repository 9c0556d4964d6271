// Errands: things to wait for that use several resources at once.
//
// A read from the store takes the store's bandwidth, its metadata server and the links on the way;
// all go on at the same time, and the errand is over when the last of them is. What shares nothing
// with others is a delay, which costs a timer.
//
// SimGrid's cost grows with the flows on one resource, so each Server carries a bounded number of
// them; further ones wait in the order they came. The bound is far above what the rules of the
// engine put under way on one node.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/world/kernel.h"

namespace batchflow::sim {

using ErrandId = std::uint64_t;  // never used again

// A host whose speed is shared by those who use it.
class Server {
 public:
  static constexpr std::uint32_t kFlowsMost = 512;

  // Null: there is no limit, and so nothing to share.
  explicit Server(simgrid::s4u::Host* host = nullptr) : host_(host) {}
  bool limited() const { return host_ != nullptr; }

 private:
  friend class Errands;
  struct Waiting {
    ErrandId errand;
    Kernel::Work work;
  };
  simgrid::s4u::Host* host_;
  std::uint32_t flows_ = 0;
  std::deque<Waiting> waiting_;
};

class Errands {
 public:
  explicit Errands(Kernel& kernel) : kernel_(kernel) {}

  // Parts are added before `go`; `then` is called when all are over, at a later round at least.
  ErrandId begin(Then then);
  void add_delay(ErrandId errand, Duration delay);
  // The server outlives the errand.
  void add_work(ErrandId errand, Server& server, const Kernel::Work& work);
  // The first byte is on its way for so long before it takes bandwidth.
  void add_transfer(ErrandId errand, simgrid::s4u::Host& from, simgrid::s4u::Host& to, double bytes,
                    Duration latency);
  void go(ErrandId errand);

  // Of the errand that is just over, within its `then`: what the last of its parts was on. A delay
  // is on no server, nor is a transfer.
  bool ended_by_transfer() const { return ended_by_transfer_; }
  const Server* ended_on() const { return ended_on_; }

  // All that is left of it ends here, and `then` is not called. Nothing if it is over.
  void cancel(ErrandId errand);

 private:
  struct Part {
    FlowId flow = 0;
    Server* server = nullptr;  // it has a place on
  };
  struct Errand {
    std::uint32_t generation = 0;
    std::uint32_t open = 0;  // parts that are not over, and one until `go`
    std::vector<Part> parts;
    Then then;
  };

  Errand* find(ErrandId id);
  void start_part(ErrandId id, Server& server, const Kernel::Work& work);
  void start_transfer(ErrandId id, simgrid::s4u::Host& from, simgrid::s4u::Host& to, double bytes);
  void part_over(ErrandId id, const Server* server = nullptr, bool by_transfer = false);
  void leave(Server& server);
  void release(std::uint32_t index);

  Kernel& kernel_;
  bool ended_by_transfer_ = false;
  const Server* ended_on_ = nullptr;
  std::vector<Errand> errands_;
  std::vector<std::uint32_t> free_;
};

}  // namespace batchflow::sim
