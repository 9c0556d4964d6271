// An object that lives as long as a connection does, such as the thread that carries the connection
// to another machine.
#pragma once

#include <string>

namespace batchflow::protocol {

class Companion {
 public:
  virtual ~Companion() = default;
  // Why the other machine is no longer reached; empty: it is reached.
  virtual std::string problem() const = 0;
  // In a child of fork(), which has not got the thread: everything is left to the parent.
  virtual void abandon() = 0;
};

}  // namespace batchflow::protocol
