// The other end of a rank's socket: a connection of this node, or a rank on an agent's node.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"

namespace batchflow::service {

// What a rank's agent does for it, in the order in which it is asked for.
class AgentEnd {
 public:
  virtual NodeId node() const = 0;
  // The next frame for the rank admits it to the job: the agent adds rings, and the job's pace.
  virtual void admit(JobId job) = 0;
  // Writes into the rank's ring. A batch's record names the share and the slot of its batch in
  // place of a slab and an offset.
  virtual void write(std::span<const std::byte> record) = 0;
  // Asks the agent to say when all its ranks of the job have what was written (Jobs::held).
  virtual void ask_held(JobId job, std::uint64_t steps) = 0;
  // Raises the pace of the rank's job.
  virtual void raise(JobId job, std::uint64_t steps) = 0;
  // The rank has released a gathered batch.
  virtual void free(ShareId share, SlotId slot) = 0;
  // Whether the rank has shown that its user may read the dataset.
  virtual bool may_read(DatasetId dataset) const = 0;

 protected:
  ~AgentEnd() = default;
};

// The other end of a rank's socket.
class Peer : public std::enable_shared_from_this<Peer> {
 public:
  virtual void send(std::string frame, std::vector<int> descriptors) = 0;  // kept by the caller
  virtual void end() = 0;  // after what has been sent
  virtual bool has_unsent() const = 0;
  virtual uid_t user() const = 0;
  virtual pid_t process() const = 0;
  virtual const std::string& from() const = 0;  // another machine; empty: this one
  // Of a rank on another node: its agent has its rings and the memory of its batches. Null: they
  // are here.
  virtual AgentEnd* agent() { return nullptr; }

 protected:
  ~Peer() = default;
};

// Tells the peer why it gets nothing, and ends it.
void refuse(Peer& peer, std::string_view why, std::string_view message);

}  // namespace batchflow::service
