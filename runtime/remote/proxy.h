// The job's side of a service on another machine: to the loader it is a service of this machine,
// with rings and batches in mapped memory, which come over a stream.
//
// So nothing in the loader knows of it. One thread, which ends when the loader closes its side.
#pragma once

#include <memory>
#include <string>

#include "runtime/protocol/channel.h"
#include "runtime/protocol/companion.h"

namespace batchflow {

class Proxy final : public Companion {
 public:
  // The channel is what the loader speaks to, as to a service. Null, with the reason in `problem`,
  // when nobody answers there, or no token is at hand (BATCHFLOW_TOKEN_FILE).
  static std::unique_ptr<Proxy> connect(const std::string& address,
                                        Channel::Clock::time_point deadline, Channel& channel,
                                        std::string& problem);
  // REQUIRES: the loader's side of the channel is closed, or nobody waits for it any more
  ~Proxy() override;
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  std::string problem() const override;
  void abandon() override;

 private:
  struct Parts;
  explicit Proxy(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace batchflow
