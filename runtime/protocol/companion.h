// What must live as long as a connection does: the thread that carries it to another machine.
#pragma once

namespace batchflow {

class Companion {
 public:
  virtual ~Companion() = default;
  // In a child of fork: its thread is not there, and the rest is the parent's.
  virtual void abandon() = 0;
};

}  // namespace batchflow
