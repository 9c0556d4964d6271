// What must live as long as a connection does: the thread that carries it to another machine.
#pragma once

#include <string>

namespace batchflow {

class Companion {
 public:
  virtual ~Companion() = default;
  // Why the other machine is not reached any more; empty: it is.
  virtual std::string problem() const = 0;
  // In a child of fork: its thread is not there, and the rest is the parent's.
  virtual void abandon() = 0;
};

}  // namespace batchflow
