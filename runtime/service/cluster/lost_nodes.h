// The nodes that a coordinator has lost of late, by name: how many are gone at once, and which may
// not join again yet.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace batchflow::service {

class LostNodes {
 public:
  // `silence`: after so long a node that says nothing is lost.
  explicit LostNodes(std::chrono::milliseconds silence) : silence_(silence) {}

  void joined(const std::string& name) { gone_.erase(name); }
  // Answers how many have been lost of late, this one included.
  std::size_t lost(const std::string& name);
  // Other nodes could not reach this one: it may not join for a while.
  void keep_out(const std::string& name, const std::string& why);
  // Why the node may not join yet; empty: it may.
  std::string objection(const std::string& name);

 private:
  using Clock = std::chrono::steady_clock;
  struct Apart {
    Clock::time_point until;
    std::string why;
  };

  const std::chrono::milliseconds silence_;
  std::map<std::string, Clock::time_point> gone_;
  std::map<std::string, Apart> apart_;
};

}  // namespace batchflow::service
