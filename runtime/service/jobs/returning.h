// Jobs that were served when the service before ended, as its promises say: their loaders look for
// the next service, and tell it where they are. No loader can be behind what its job has trained
// on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "core/order/position.h"
#include "runtime/service/log/promise_file.h"

namespace batchflow::service {

class Returning {
 public:
  // Of what the file has when the service begins.
  explicit Returning(PromiseFile& file);

  // Empty, or why a job of that name cannot come back where it says it is. `user` as in JobJoined.
  std::string objection(std::uint64_t user, const std::string& name,
                        const order::Position& told) const;
  // A job of that name has begun here: what was promised to the one before is over.
  void begun(std::uint64_t user, const std::string& name);
  // Nobody is waited for any longer.
  void give_up();

  std::vector<std::string> names() const;
  // Above those of all that may come back.
  std::uint32_t next_job() const { return next_job_; }

 private:
  PromiseFile& file_;
  std::map<std::pair<std::uint64_t, std::string>, JobId> jobs_;
  std::uint32_t next_job_ = 0;
};

}  // namespace batchflow::service
